/** A broker's settings as the file that its process reads. */
package kafka.server

import java.io.{File, FileWriter}
import java.util.Locale

import javax.security.auth.login.{AppConfigurationEntry, Configuration}
import org.apache.kafka.common.config.types.Password
import org.apache.kafka.common.security.auth.SecurityProtocol

import scala.collection.mutable
import scala.jdk.CollectionConverters._

object ServerProperties {
  def write(config: KafkaConfig, file: File): Unit = {
    val settings = mutable.Map.empty[String, String]
    config.originals.asScala.foreach { case (key, value) => settings(key) = text(value) }
    jaasEntries(config, settings)
    zooKeeperLogin(settings)
    val writer = new FileWriter(file)
    settings.foreach { case (key, value) =>
      writer.write(s"$key=${value.replace("\\", "\\\\").replace("\n", "\\n")}\n")
    }
    writer.close()
  }

  private def text(value: Any): String = value match {
    case null => ""
    case c: Class[_] => c.getName
    case l: java.util.List[_] => l.asScala.mkString(",")
    case password: Password => password.value
    case other => other.toString
  }

  /** The JVM that runs the tests has its JAAS entries in a file that only a JVM reads: write them as settings. */
  private def jaasEntries(config: KafkaConfig, settings: mutable.Map[String, String]): Unit = {
    val mechanisms = config.getList("sasl.enabled.mechanisms").asScala
    val secured = config.effectiveListenerSecurityProtocolMap.filter { case (_, protocol) =>
      protocol == SecurityProtocol.SASL_PLAINTEXT || protocol == SecurityProtocol.SASL_SSL
    }
    for ((listener, _) <- secured) {
      val prefix = listener.value.toLowerCase(Locale.ROOT)
      val enabled = settings.get(s"listener.name.$prefix.sasl.enabled.mechanisms").map(_.split(",").toSeq).getOrElse(mechanisms)
      for (mechanism <- enabled.map(_.trim)) {
        val name = s"listener.name.$prefix.${mechanism.toLowerCase(Locale.ROOT)}.sasl.jaas.config"
        if (!settings.contains(name) && !settings.contains("sasl.jaas.config"))
          entries(prefix).find(_.getLoginModuleName.contains(module(mechanism))).foreach(e => settings(name) = rendered(e))
      }
    }
  }

  /** A JVM logs in to ZooKeeper with the section `Client`; Ottla, by DIGEST-MD5, with a setting. */
  private def zooKeeperLogin(settings: mutable.Map[String, String]): Unit =
    section("Client").flatMap(_.find(_.getLoginModuleName.contains("DigestLoginModule")))
      .foreach(entry => settings("ottla.zookeeper.jaas.config") = rendered(entry))

  private def entries(listener: String): Seq[AppConfigurationEntry] =
    Seq(s"$listener.KafkaServer", "KafkaServer").flatMap(section).headOption.getOrElse(Seq.empty)

  private def section(name: String): Option[Seq[AppConfigurationEntry]] =
    try Option(Configuration.getConfiguration.getAppConfigurationEntry(name)).map(_.toSeq)
    catch { case _: SecurityException => None }

  private def module(mechanism: String): String = mechanism match {
    case "GSSAPI" => "Krb5LoginModule"
    case "OAUTHBEARER" => "OAuthBearerLoginModule"
    case scram if scram.startsWith("SCRAM-") => "ScramLoginModule"
    case _ => "PlainLoginModule"
  }

  private def rendered(entry: AppConfigurationEntry): String = {
    val options = entry.getOptions.asScala.map { case (key, value) =>
      s""" $key="${value.toString.replace("\\", "\\\\").replace("\"", "\\\"")}""""
    }
    s"${entry.getLoginModuleName} required${options.mkString};"
  }
}
