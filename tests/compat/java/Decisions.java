import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;

/**
 * What Apache Kafka's authorizer decides, and what its meters measure; one line in, one line out, fields by tabs.
 *
 * <pre>
 * rules   OPEN  TYPE,NAME,PATTERN,PRINCIPAL,HOST,OPERATION,PERMISSION|...  PRINCIPAL,HOST,OPERATION,TYPE,NAME|...
 * rate    SAMPLES  WINDOW_MS  QUOTA  MS:VALUE|...
 * bucket  SAMPLES  WINDOW_MS  QUOTA  MS:VALUE|...
 * </pre>
 *
 * A question without a name asks about any resource of the type. The answers of rules are 1 for allowed and 0 for denied;
 * those of meters the milliseconds to hold back after each record.
 */
public final class Decisions {
    private static final class Context implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Context(String principal, String host) throws Exception {
            this.principal = new KafkaPrincipal("User", principal.substring("User:".length()));
            this.address = InetAddress.getByName(host);
        }

        @Override
        public String listenerName() {
            return "L";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return principal;
        }

        @Override
        public InetAddress clientAddress() {
            return address;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            System.out.println(parts[0].equals("rules") ? decide(parts) : measure(parts));
            System.out.flush();
        }
    }

    private static String decide(String[] parts) throws Exception {
        Authorizer authorizer = authorizer(Boolean.parseBoolean(parts[1]), parts[2]);
        StringBuilder verdicts = new StringBuilder();
        for (String question : parts[3].split("\\|")) {
            String[] asked = question.split(",", -1);
            Context context = new Context(asked[0], asked[1]);
            AclOperation operation = AclOperation.fromString(asked[2]);
            ResourceType type = ResourceType.fromString(asked[3]);
            AuthorizationResult verdict;
            if (asked[4].isEmpty()) {
                verdict = authorizer.authorizeByResourceType(context, operation, type);
            } else {
                ResourcePattern resource = new ResourcePattern(type, asked[4], PatternType.LITERAL);
                verdict = authorizer.authorize(context, List.of(new Action(operation, resource, 1, false, false))).get(0);
            }
            verdicts.append(verdict == AuthorizationResult.ALLOWED ? '1' : '0');
        }
        return verdicts.toString();
    }

    /** Makes an authorizer with rules in its cache; ZooKeeper, where they come from otherwise, is not asked. */
    private static Authorizer authorizer(boolean open, String rules) throws Exception {
        Class<?> made = Class.forName("kafka.security.authorizer.AclAuthorizer");
        Authorizer authorizer = (Authorizer) made.getConstructor().newInstance();
        Field flag = made.getDeclaredField("shouldAllowEveryoneIfNoAclIsFound");
        flag.setAccessible(true);
        flag.setBoolean(authorizer, open);
        Map<ResourcePattern, Set<AclEntry>> byResource = new HashMap<>();
        for (String rule : rules.isEmpty() ? new String[0] : rules.split("\\|")) {
            String[] of = rule.split(",", -1);
            ResourcePattern resource =
                new ResourcePattern(ResourceType.fromString(of[0]), of[1], PatternType.fromString(of[2]));
            AclOperation operation = AclOperation.fromString(of[5]);
            AclPermissionType permission = AclPermissionType.fromString(of[6]);
            AccessControlEntry entry = new AccessControlEntry(of[3], of[4], operation, permission);
            byResource.computeIfAbsent(resource, any -> new HashSet<>()).add(new AclEntry(entry));
        }
        Class<?> versioned = Class.forName("kafka.security.authorizer.AclAuthorizer$VersionedAcls");
        Constructor<?> make = versioned.getConstructors()[0];
        Method update = made.getMethod("updateCache", ResourcePattern.class, versioned);
        for (Map.Entry<ResourcePattern, Set<AclEntry>> each : byResource.entrySet()) {
            Object acls = scala.jdk.javaapi.CollectionConverters.asScala(each.getValue()).toSet();
            update.invoke(authorizer, each.getKey(), make.newInstance(acls, 0));
        }
        return authorizer;
    }

    private static String measure(String[] parts) {
        double quota = Double.parseDouble(parts[3]);
        MetricConfig config = new MetricConfig()
            .samples(Integer.parseInt(parts[1]))
            .timeWindow(Long.parseLong(parts[2]), TimeUnit.MILLISECONDS)
            .quota(Quota.upperBound(quota));
        Rate rate = new Rate();
        TokenBucket bucket = new TokenBucket();
        StringBuilder throttles = new StringBuilder();
        for (String record : parts[4].split("\\|")) {
            String[] of = record.split(":");
            long now = Long.parseLong(of[0]);
            double value = Double.parseDouble(of[1]);
            long throttle = 0;
            if (parts[0].equals("rate")) {
                rate.record(config, value, now);
                double measured = rate.measure(config, now);
                if (measured > quota) {
                    throttle = Math.round((measured - quota) / quota * rate.windowSize(config, now));
                }
            } else {
                bucket.record(config, value, now);
                double tokens = bucket.measure(config, now);
                throttle = tokens < 0 ? Math.round(-tokens / quota * 1000) : 0;
            }
            throttles.append(throttle).append(' ');
        }
        return throttles.toString().trim();
    }
}
