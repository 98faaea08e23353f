"""TLS, SASL and delegation tokens."""

from typing import Final

TABLE: Final = """
delegation.token.secret.key | password | null | medium | read-only
    The secret that signs delegation tokens, the same on every broker; without it there are none.
delegation.token.master.key | password | null | medium | read-only
    The older name of the secret that signs delegation tokens.
delegation.token.expiry.time.ms | long | 86400000 | medium | read-only
    valid: 1..
    How long a delegation token holds without renewal.
delegation.token.max.lifetime.ms | long | 604800000 | medium | read-only
    valid: 1..
    How long a delegation token may be renewed.
delegation.token.expiry.check.interval.ms | long | 3600000 | low | read-only
    valid: 1..
    How often expired delegation tokens are removed.
password.encoder.secret | password | null | medium | read-only
    The secret that encrypts passwords in ZooKeeper.
password.encoder.old.secret | password | null | medium | read-only
    The secret before the present one.
password.encoder.cipher.algorithm | string | AES/CBC/PKCS5Padding | low | read-only
    refused: another cipher is not served
    The cipher of passwords in ZooKeeper.
password.encoder.iterations | int | 4096 | low | read-only
    valid: 1024..
    The iterations that make the key of that cipher.
password.encoder.key.length | int | 128 | low | read-only
    valid: 128, 192, 256
    The key length of that cipher.
password.encoder.keyfactory.algorithm | string | null | low | read-only
    valid: PBKDF2WithHmacSHA1, PBKDF2WithHmacSHA256, PBKDF2WithHmacSHA384, PBKDF2WithHmacSHA512
    How the key of that cipher is made.
security.providers | string | null | low | read-only
    without effect
    Java security providers.
sasl.client.callback.handler.class | class | null | medium | read-only
    without effect
    The Java class of the client's side of SASL.
sasl.enabled.mechanisms | list | GSSAPI | medium | at-start
    The SASL mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. GSSAPI is not
    served, so a SASL listener needs a value here.
sasl.jaas.config | password | null | medium | at-start
    The login module of SASL and its options; a broker reads it per listener and mechanism, as
    listener.name.NAME.MECHANISM.sasl.jaas.config, both in lower case.
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit | medium | per-broker
    without effect
    The path of kinit.
sasl.kerberos.min.time.before.relogin | long | 60000 | medium | per-broker
    without effect
    The rest between Kerberos logins.
sasl.kerberos.principal.to.local.rules | list | DEFAULT | medium | per-broker
    without effect
    How Kerberos principals become names.
sasl.kerberos.service.name | string | null | medium | per-broker
    without effect
    The Kerberos principal of the broker.
sasl.kerberos.ticket.renew.jitter | double | 0.05 | medium | per-broker
    without effect
    The random part of a Kerberos ticket's renewal.
sasl.kerberos.ticket.renew.window.factor | double | 0.8 | medium | per-broker
    without effect
    When in its life a Kerberos ticket is renewed.
sasl.login.callback.handler.class | class | null | medium | read-only
    without effect
    The Java class of the SASL login's answers.
sasl.login.class | class | null | medium | read-only
    without effect
    The Java class of the SASL login.
sasl.login.connect.timeout.ms | int | null | low | read-only
    without effect
    The patience with a connection to an identity provider.
sasl.login.read.timeout.ms | int | null | low | read-only
    without effect
    The patience with an answer of an identity provider.
sasl.login.refresh.buffer.seconds | short | 300 | medium | per-broker
    without effect
    How long before its end a login is refreshed at the latest.
sasl.login.refresh.min.period.seconds | short | 60 | medium | per-broker
    without effect
    The least time between refreshes of a login.
sasl.login.refresh.window.factor | double | 0.8 | medium | per-broker
    without effect
    When in its life a login is refreshed.
sasl.login.refresh.window.jitter | double | 0.05 | medium | per-broker
    without effect
    The random part of a login's refresh.
sasl.login.retry.backoff.max.ms | long | 10000 | low | read-only
    without effect
    The longest rest between tries to log in.
sasl.login.retry.backoff.ms | long | 100 | low | read-only
    without effect
    The first rest between tries to log in.
sasl.mechanism.inter.broker.protocol | string | GSSAPI | medium | at-start
    The SASL mechanism between brokers.
sasl.oauthbearer.clock.skew.seconds | int | 30 | low | read-only
    The difference of clocks that OAuth allows.
sasl.oauthbearer.expected.audience | list | null | low | read-only
    The audience that an OAuth token must name.
sasl.oauthbearer.expected.issuer | string | null | low | read-only
    The issuer that an OAuth token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000 | low | read-only
    How often the OAuth provider's keys are read again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000 | low | read-only
    The longest rest between tries to read those keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100 | low | read-only
    The first rest between tries to read those keys.
sasl.oauthbearer.jwks.endpoint.url | string | null | medium | read-only
    Where those keys are read.
sasl.oauthbearer.scope.claim.name | string | scope | low | read-only
    The OAuth claim that holds the scope.
sasl.oauthbearer.sub.claim.name | string | sub | low | read-only
    The OAuth claim that holds the subject.
sasl.oauthbearer.token.endpoint.url | string | null | medium | read-only
    without effect
    Where OAuth tokens are asked for.
sasl.server.callback.handler.class | class | null | medium | read-only
    Which of Kafka's two classes validates tokens of OAUTHBEARER; no other class is served.
sasl.server.max.receive.size | int | 524288 | medium | read-only
    The largest message before authentication.
ssl.allow.dn.changes | boolean | false | low | read-only
    Whether a new keystore may name another subject.
ssl.allow.san.changes | boolean | false | low | read-only
    Whether a new keystore may drop alternative names.
ssl.cipher.suites | list | | medium | at-start
    The cipher suites of TLS listeners.
ssl.client.auth | string | none | medium | at-start
    valid: required, requested, none
    Whether TLS clients show a certificate.
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 | medium | at-start
    The versions of TLS.
ssl.endpoint.identification.algorithm | string | https | low | at-start
    How a server's name is checked.
ssl.engine.factory.class | class | null | low | at-start
    refused: Java classes cannot make TLS engines here
    The Java class that makes TLS engines.
ssl.key.password | password | null | medium | at-start
    The password of the private key.
ssl.keymanager.algorithm | string | SunX509 | medium | at-start
    without effect
    The algorithm of the key manager.
ssl.keystore.certificate.chain | password | null | medium | at-start
    The certificates as PEM.
ssl.keystore.key | password | null | medium | at-start
    The private key as PEM.
ssl.keystore.location | string | null | medium | at-start
    The keystore's file.
ssl.keystore.password | password | null | medium | at-start
    The keystore's password.
ssl.keystore.type | string | JKS | medium | at-start
    The keystore's format.
ssl.principal.mapping.rules | string | DEFAULT | low | read-only
    How a certificate's subject becomes a name.
ssl.protocol | string | TLSv1.3 | medium | at-start
    without effect
    The version of TLS that is preferred.
ssl.provider | string | null | medium | at-start
    without effect
    The Java provider of TLS.
ssl.secure.random.implementation | string | null | low | at-start
    without effect
    The source of randomness of TLS.
ssl.trustmanager.algorithm | string | PKIX | medium | at-start
    without effect
    The algorithm of the trust manager.
ssl.truststore.certificates | password | null | medium | at-start
    The trusted certificates as PEM.
ssl.truststore.location | string | null | medium | at-start
    The truststore's file.
ssl.truststore.password | password | null | medium | at-start
    The truststore's password.
ssl.truststore.type | string | JKS | medium | at-start
    The truststore's format.
zookeeper.ssl.cipher.suites | list | null | low | read-only
    The cipher suites towards ZooKeeper.
zookeeper.ssl.crl.enable | boolean | false | low | read-only
    Whether revocation lists are read for ZooKeeper.
zookeeper.ssl.enabled.protocols | list | null | low | read-only
    The versions of TLS towards ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm | string | HTTPS | low | read-only
    How ZooKeeper's name is checked.
zookeeper.ssl.keystore.location | string | null | medium | read-only
    The keystore's file towards ZooKeeper.
zookeeper.ssl.keystore.password | password | null | medium | read-only
    The keystore's password towards ZooKeeper.
zookeeper.ssl.keystore.type | string | null | medium | read-only
    The keystore's format towards ZooKeeper.
zookeeper.ssl.ocsp.enable | boolean | false | low | read-only
    Whether certificate status is asked for ZooKeeper.
zookeeper.ssl.protocol | string | TLSv1.2 | low | read-only
    The version of TLS towards ZooKeeper that is preferred.
zookeeper.ssl.truststore.location | string | null | medium | read-only
    The truststore's file towards ZooKeeper.
zookeeper.ssl.truststore.password | password | null | medium | read-only
    The truststore's password towards ZooKeeper.
zookeeper.ssl.truststore.type | string | null | medium | read-only
    The truststore's format towards ZooKeeper.
"""
