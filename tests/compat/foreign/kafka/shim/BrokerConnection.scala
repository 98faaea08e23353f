/** How the shim asks its broker: over the listener, and with the credentials, that brokers use among themselves. */
package kafka.server

import org.apache.kafka.clients.{ApiVersions, ClientRequest, ManualMetadataUpdater, MetadataRecoveryStrategy, NetworkClient, NetworkClientUtils}
import org.apache.kafka.common.Node
import org.apache.kafka.common.metrics.Metrics
import org.apache.kafka.common.network.{ChannelBuilders, NetworkReceive, Selectable, Selector}
import org.apache.kafka.common.requests.{AbstractRequest, AbstractResponse}
import org.apache.kafka.common.security.JaasContext
import org.apache.kafka.common.utils.{LogContext, Time}

import java.util.Collections

class BrokerConnection(config: KafkaConfig, node: Node) extends AutoCloseable {
  private val time = Time.SYSTEM
  private val log = new LogContext("[shim] ")
  private val metrics = new Metrics
  private val client = new NetworkClient(
    new Selector(NetworkReceive.UNLIMITED, -1, metrics, time, "shim", Collections.emptyMap[String, String], false,
      ChannelBuilders.clientChannelBuilder(config.interBrokerSecurityProtocol, JaasContext.Type.SERVER, config,
        config.interBrokerListenerName, config.saslMechanismInterBrokerProtocol, time,
        config.saslInterBrokerHandshakeRequestEnable, log), log),
    new ManualMetadataUpdater(Collections.singletonList(node)), "shim", 1, 0L, 0L, Selectable.USE_DEFAULT_BUFFER_SIZE,
    Selectable.USE_DEFAULT_BUFFER_SIZE, 10000, 10000L, 10000L, time, true, new ApiVersions, log, MetadataRecoveryStrategy.NONE)

  /** The broker's answer; None where it cannot be reached. */
  def ask[T <: AbstractResponse](request: AbstractRequest.Builder[_ <: AbstractRequest]): Option[T] = synchronized {
    try {
      if (!NetworkClientUtils.awaitReady(client, node, time, 10000L)) return None
      val sent: ClientRequest = client.newClientRequest(node.idString, request, time.milliseconds, true, 10000, null)
      val answer = NetworkClientUtils.sendAndReceive(client, sent, time)
      if (answer.hasResponse) Some(answer.responseBody.asInstanceOf[T]) else None
    } catch {
      case _: java.io.IOException => None
    }
  }

  override def close(): Unit = {
    client.close()
    metrics.close()
  }
}
