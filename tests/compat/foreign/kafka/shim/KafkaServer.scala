/**
 * A broker for Apache Kafka's own tests which is an Ottla process.
 *
 * The tests build `kafka.server.KafkaServer` objects and look at clusters through them. This class has that name and that
 * constructor and comes first on the class path. What it shows of a broker is read from the process over the public protocol,
 * from ZooKeeper and from its log directories. A test that looks at anything else inside a broker fails with a
 * NoSuchMethodError or on a mock, and is listed in `refused`.
 *
 * `ottla.command` (a system property) is the command that runs Ottla.
 */
package kafka.server

import java.io.File
import java.time.Duration
import java.util.{Collections, Optional, OptionalLong, Properties}
import java.util.concurrent.TimeUnit

import kafka.cluster.{EndPoint, Partition}
import kafka.controller.{ControllerContext, KafkaController}
import kafka.coordinator.transaction.TransactionCoordinator
import kafka.log.{LogManager, UnifiedLog}
import kafka.log.remote.RemoteLogManager
import kafka.network.SocketServer
import org.apache.kafka.security.CredentialProvider
import kafka.server.metadata.ZkMetadataCache
import kafka.zk.KafkaZkClient
import org.apache.kafka.common.{KafkaException, Node, TopicPartition, Uuid}
import org.apache.kafka.common.config.{ConfigResource, TopicConfig}
import org.apache.kafka.common.message.{DescribeConfigsRequestData, DescribeProducersRequestData}
import org.apache.kafka.common.message.DescribeConfigsRequestData.DescribeConfigsResource
import org.apache.kafka.common.record.FileRecords
import org.apache.kafka.common.message.ListOffsetsRequestData.{ListOffsetsPartition, ListOffsetsTopic}
import org.apache.kafka.common.message.UpdateMetadataRequestData.{UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState}
import org.apache.kafka.common.metrics.Metrics
import org.apache.kafka.common.network.ListenerName
import org.apache.kafka.common.protocol.{ApiKeys, Errors}
import org.apache.kafka.common.requests.{AbstractRequest, AbstractResponse, DescribeConfigsRequest, DescribeConfigsResponse, DescribeProducersRequest, DescribeProducersResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, UpdateMetadataRequest}
import org.apache.kafka.common.security.scram.internals.ScramMechanism
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache
import org.apache.kafka.common.utils.Time
import org.apache.kafka.coordinator.group.GroupCoordinator
import org.apache.kafka.metadata.BrokerState
import org.apache.kafka.server.authorizer.Authorizer
import org.apache.kafka.server.NodeToControllerChannelManager
import org.apache.kafka.server.metrics.KafkaYammerMetrics
import org.apache.kafka.server.util.{KafkaScheduler, Scheduler}
import org.apache.kafka.storage.internals.log.{BatchMetadata, LogConfig, LogSegment, ProducerStateEntry, ProducerStateManager, ProducerStateManagerConfig}
import org.mockito.ArgumentMatchers.{any, anyBoolean}
import org.mockito.Mockito.{mock, when}

import scala.collection.Seq
import scala.jdk.CollectionConverters._

object KafkaServer {
  val StartTimeoutMs: Long = 60000

  def zkClientConfigFromKafkaConfig(config: KafkaConfig, forceZkSslClientEnable: Boolean = false): org.apache.zookeeper.client.ZKClientConfig = {
    val clientConfig = new org.apache.zookeeper.client.ZKClientConfig
    if (!org.apache.kafka.common.security.JaasUtils.isZkSaslEnabled)
      clientConfig.setProperty(org.apache.kafka.common.security.JaasUtils.ZK_SASL_CLIENT, "false")
    clientConfig
  }
}

class KafkaServer(
  val config: KafkaConfig,
  time: Time = Time.SYSTEM,
  threadNamePrefix: Option[String] = None,
  enableForwarding: Boolean = false
) extends KafkaBroker with Server {

  if (enableForwarding)
    throw new KafkaException("refused: forwarding to a KRaft controller")

  private var process: Process = _
  private var folder: File = _
  private var stopped = true
  private var _zkClient: KafkaZkClient = _
  private var _clusterId: String = _
  private var connected: Option[(Node, BrokerConnection)] = None

  private[kafka] def zkClient: KafkaZkClient = _zkClient

  override def clusterId: String = _clusterId
  override def brokerState: BrokerState = if (isShutdown()) BrokerState.NOT_RUNNING else BrokerState.RUNNING
  override def isShutdown(): Boolean = stopped

  override def startup(): Unit = {
    if (!stopped) return
    folder = java.nio.file.Files.createTempDirectory("ottla-broker").toFile
    _zkClient = KafkaZkClient.createZkClient("shim", time, config, KafkaServer.zkClientConfigFromKafkaConfig(config))
    _zkClient.createTopLevelPaths()
    val before = registrationEpoch
    val properties = new File(folder, "server.properties")
    ServerProperties.write(config, properties)
    val output = new File(folder, "broker.log")
    val command = System.getProperty("ottla.command").split(' ').toSeq ++ Seq("broker", properties.toString)
    process = new ProcessBuilder(command.asJava).redirectErrorStream(true).redirectOutput(output).start()
    Runtime.getRuntime.addShutdownHook(new Thread(() => process.destroy()))
    stopped = false
    val deadline = System.currentTimeMillis + KafkaServer.StartTimeoutMs
    while (registrationEpoch == before || !answersMetadata) {
      if (!process.isAlive || System.currentTimeMillis > deadline) {
        val said = new String(java.nio.file.Files.readAllBytes(output.toPath))
        shutdown(Duration.ofSeconds(5))
        throw new KafkaException(s"the broker did not start: ${said.linesIterator.toSeq.takeRight(2).mkString(" ")}")
      }
      process.waitFor(20, TimeUnit.MILLISECONDS)
    }
    _clusterId = _zkClient.getClusterId.get
    advertisedListeners
    authorizer = config.createNewAuthorizer()
    authorizer.foreach(_.configure(config.originals))
  }

  private def registrationEpoch: Long =
    _zkClient.getBroker(config.brokerId).map(_ => _zkClient.getAllBrokerAndEpochsInCluster
      .collectFirst { case (broker, epoch) if broker.id == config.brokerId => epoch }.getOrElse(-1L)).getOrElse(-1L)

  override def shutdown(timeout: Duration): Unit = synchronized {
    if (!stopped) {
      stopped = true
      process.destroy()
      if (!process.waitFor(timeout.toMillis, TimeUnit.MILLISECONDS)) {
        process.destroyForcibly()
        process.waitFor()
      }
      authorizer.foreach(_.close())
      authorizer = None
      connected.foreach(_._2.close())
      connected = None
      _zkClient.close()
      metrics.close()
    }
  }

  override def awaitShutdown(): Unit = if (process != null) process.waitFor()

  private var endpoints: Seq[EndPoint] = Seq.empty

  /** The listeners as ZooKeeper has them; those of a broker that has stopped are the last known ones. */
  def advertisedListeners: Seq[EndPoint] = {
    if (!stopped)
      _zkClient.getBroker(config.brokerId).foreach(broker => endpoints = broker.endPoints)
    endpoints
  }

  override def boundPort(listenerName: ListenerName): Int =
    advertisedListeners.find(_.listenerName == listenerName).map(_.port)
      .getOrElse(throw new KafkaException(s"no listener $listenerName"))

  def getLogManager: LogManager = logManager

  // What the process answers.

  private def connection: Option[BrokerConnection] = synchronized {
    val known = _zkClient.getBroker(config.brokerId)
      .flatMap(broker => broker.endPoints.find(_.listenerName == config.interBrokerListenerName))
      .map(endpoint => new Node(config.brokerId, endpoint.host, endpoint.port))
    if (known.isDefined && known != connected.map(_._1)) {
      connected.foreach(_._2.close())
      connected = known.map(node => (node, new BrokerConnection(config, node)))
    }
    if (known.isDefined) connected.map(_._2) else None
  }

  private def ask[T <: AbstractResponse](request: AbstractRequest.Builder[_ <: AbstractRequest]): Option[T] =
    connection.flatMap(_.ask[T](request))

  private def metadataAnswer: Option[MetadataResponse] =
    ask[MetadataResponse](MetadataRequest.Builder.allTopics)

  /** Whether the broker serves; one that advertises what leads nowhere counts as serving once it is registered. */
  private def answersMetadata: Boolean =
    metadataAnswer.exists(!_.brokers.isEmpty) || advertisedListeners.exists(_.listenerName == config.interBrokerListenerName) &&
      !config.effectiveAdvertisedBrokerListeners.forall(e => Set("localhost", "127.0.0.1", "0.0.0.0").contains(e.host))

  /** The broker's view of the cluster, from its Metadata answer; each look at it asks again. */
  def metadataCache: ZkMetadataCache = {
    val cache = MetadataCache.zkMetadataCache(config.brokerId, config.interBrokerProtocolVersion)
    metadataAnswer.foreach { answer =>
      val states = answer.topicMetadata.asScala.filter(_.error == Errors.NONE).flatMap { topic =>
        topic.partitionMetadata.asScala.map { partition =>
          new UpdateMetadataPartitionState().setTopicName(topic.topic).setPartitionIndex(partition.partition)
            .setControllerEpoch(_zkClient.getControllerEpoch.map(_._1).getOrElse(0))
            .setLeader(partition.leaderId.orElse(-1)).setLeaderEpoch(partition.leaderEpoch.orElse(-1))
            .setIsr(partition.inSyncReplicaIds).setReplicas(partition.replicaIds)
            .setOfflineReplicas(partition.offlineReplicaIds)
            .setZkVersion(0)
        }
      }
      val ids = answer.topicMetadata.asScala.map(topic => topic.topic -> topic.topicId).toMap.asJava
      val live = _zkClient.getAllBrokersInCluster.map { broker =>
        new UpdateMetadataBroker().setId(broker.id).setRack(broker.rack.orNull).setEndpoints(broker.endPoints.map { e =>
          new UpdateMetadataEndpoint().setHost(e.host).setPort(e.port).setListener(e.listenerName.value)
            .setSecurityProtocol(e.securityProtocol.id)
        }.asJava)
      }
      val controller = Option(answer.controller).map(_.id).getOrElse(-1)
      val update = new UpdateMetadataRequest.Builder(ApiKeys.UPDATE_METADATA.latestVersion, controller, 1, 1,
        states.toSeq.asJava, live.toSeq.asJava, ids).build()
      cache.updateMetadata(0, update)
    }
    cache
  }

  private def offsetOf(partition: TopicPartition, timestamp: Long): Long = {
    val builder = ListOffsetsRequest.Builder.forReplica(7, -2)
    builder.setTargetTimes(Collections.singletonList(new ListOffsetsTopic().setName(partition.topic).setPartitions(
      Collections.singletonList(new ListOffsetsPartition().setPartitionIndex(partition.partition).setTimestamp(timestamp)
        .setCurrentLeaderEpoch(-1)))))
    ask[ListOffsetsResponse](builder)
      .map(_.topics.get(0).partitions.get(0))
      .filter(_.errorCode == 0).map(_.offset)
      .getOrElse(throw new KafkaException(s"broker ${config.brokerId} does not answer for $partition"))
  }

  private def directoryOf(partition: TopicPartition): Option[File] =
    config.logDirs.map(new File(_, partition.toString).getAbsoluteFile).find(_.isDirectory)

  private def producersOf(partition: TopicPartition): java.util.Map[java.lang.Long, ProducerStateEntry] = {
    val topic = new DescribeProducersRequestData.TopicRequest().setName(partition.topic)
      .setPartitionIndexes(Collections.singletonList(partition.partition))
    val data = new DescribeProducersRequestData().setTopics(Collections.singletonList(topic))
    ask[DescribeProducersResponse](new DescribeProducersRequest.Builder(data)).toSeq
      .flatMap(_.data.topics.asScala).flatMap(_.partitions.asScala).flatMap(_.activeProducers.asScala).map { producer =>
        Long.box(producer.producerId) -> new ProducerStateEntry(producer.producerId, producer.producerEpoch.toShort,
          producer.coordinatorEpoch, producer.lastTimestamp, OptionalLong.empty, Optional.empty[BatchMetadata])
      }.toMap.asJava
  }

  private def segmentsOf(directory: File): Seq[LogSegment] =
    Option(directory.listFiles).toSeq.flatten.filter(_.getName.endsWith(".log")).sortBy(_.getName).map { file =>
      val segment = mock(classOf[LogSegment])
      when(segment.log).thenAnswer(_ => FileRecords.open(file, false))
      segment
    }

  /** The present value of a setting of this broker. */
  private def setting(name: String): Option[String] = {
    val resource = new DescribeConfigsResource().setResourceType(ConfigResource.Type.BROKER.id)
      .setResourceName(config.brokerId.toString).setConfigurationKeys(Collections.singletonList(name))
    val data = new DescribeConfigsRequestData().setResources(Collections.singletonList(resource))
    ask[DescribeConfigsResponse](new DescribeConfigsRequest.Builder(data))
      .flatMap(_.data.results.asScala.flatMap(_.configs.asScala).headOption).map(_.value)
  }

  private def logOf(partition: TopicPartition): Option[UnifiedLog] = directoryOf(partition).map { directory =>
    val log = mock(classOf[UnifiedLog])
    when(log.dir).thenReturn(directory)
    when(log.topicPartition).thenReturn(partition)
    when(log.logStartOffset).thenAnswer(_ => offsetOf(partition, ListOffsetsRequest.EARLIEST_TIMESTAMP))
    when(log.logEndOffset).thenAnswer(_ => offsetOf(partition, ListOffsetsRequest.LATEST_TIMESTAMP))
    when(log.config).thenAnswer(_ => {
      val overrides = new kafka.zk.AdminZkClient(_zkClient).fetchEntityConfig(org.apache.kafka.server.config.ConfigType.TOPIC, partition.topic)
      LogConfig.fromProps(config.extractLogConfigMap, overrides)
    })
    when(log.producerStateManager).thenAnswer { _ =>
      val state = mock(classOf[ProducerStateManager])
      when(state.activeProducers).thenAnswer(_ => producersOf(partition))
      state
    }
    when(log.logSegments).thenAnswer(_ => segmentsOf(directory).asJava)
    when(log.highWatermark).thenAnswer(_ => offsetOf(partition, ListOffsetsRequest.LATEST_TIMESTAMP))
    log
  }

  val logManager: LogManager = {
    val manager = mock(classOf[LogManager])
    when(manager.getLog(any(classOf[TopicPartition]), anyBoolean)).thenAnswer(i => logOf(i.getArgument[TopicPartition](0)))
    when(manager.logsByTopic(any(classOf[String]))).thenAnswer { i =>
      val topic = i.getArgument[String](0)
      (0 until metadataCache.numPartitions(topic).getOrElse(0)).flatMap(p => logOf(new TopicPartition(topic, p)))
    }
    when(manager.producerStateManagerConfig).thenAnswer { _ =>
      new ProducerStateManagerConfig(setting("producer.id.expiration.ms").get.toInt,
        setting("transaction.partition.verification.enable").get.toBoolean)
    }
    when(manager.liveLogDirs).thenAnswer(_ => config.logDirs.map(new File(_).getAbsoluteFile))
    manager
  }

  val replicaManager: ReplicaManager = {
    val manager = mock(classOf[ReplicaManager])
    when(manager.localLog(any(classOf[TopicPartition]))).thenAnswer(i => logOf(i.getArgument[TopicPartition](0)))
    when(manager.getPartition(any(classOf[TopicPartition]))).thenAnswer { i =>
      directoryOf(i.getArgument[TopicPartition](0)).map(_ => HostedPartition.Online(mock(classOf[Partition]))).getOrElse(HostedPartition.None)
    }
    when(manager.onlinePartition(any(classOf[TopicPartition]))).thenAnswer { i =>
      val place = i.getArgument[TopicPartition](0)
      directoryOf(place).map { _ =>
        val partition = mock(classOf[Partition])
        when(partition.leaderLogIfLocal).thenAnswer { _ =>
          metadataCache.getPartitionInfo(place.topic, place.partition).filter(_.leader == config.brokerId).flatMap(_ => logOf(place))
        }
        partition
      }
    }
    manager
  }

  val groupCoordinator: GroupCoordinator = {
    val coordinator = mock(classOf[GroupCoordinator])
    val properties = new Properties
    properties.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT)
    properties.put(TopicConfig.SEGMENT_BYTES_CONFIG, config.groupCoordinatorConfig.offsetsTopicSegmentBytes.toString)
    properties.put(TopicConfig.COMPRESSION_TYPE_CONFIG, "producer")
    when(coordinator.groupMetadataTopicConfigs).thenReturn(properties)
    coordinator
  }

  def kafkaController: KafkaController = {
    val context = new ControllerContext
    val ids: scala.collection.Map[String, Uuid] = _zkClient.getTopicIdsForTopics(_zkClient.getAllTopicsInCluster())
    context.setAllTopics(ids.keySet)
    ids.foreach { case (topic, id) => context.addTopicId(topic, id) }
    val controller = mock(classOf[KafkaController])
    when(controller.controllerContext).thenReturn(context)
    when(controller.brokerEpoch).thenAnswer(_ => registrationEpoch)
    when(controller.isActive).thenAnswer(_ => _zkClient.getControllerId.contains(config.brokerId))
    controller
  }

  lazy val credentialProvider: CredentialProvider = {
    val provider = new CredentialProvider(ScramMechanism.mechanismNames, null)
    val reader = new kafka.zk.AdminZkClient(_zkClient)
    reader.fetchAllEntityConfigs(org.apache.kafka.server.config.ConfigType.USER).foreach { case (user, properties) =>
      provider.updateCredentials(org.apache.kafka.common.utils.Sanitizer.desanitize(user), properties)
    }
    provider
  }

  var authorizer: Option[Authorizer] = None
  val metrics: Metrics = new Metrics
  val kafkaYammerMetrics: KafkaYammerMetrics = KafkaYammerMetrics.INSTANCE
  val brokerTopicStats: BrokerTopicStats = new BrokerTopicStats(false)
  val remoteLogManagerOpt: Option[RemoteLogManager] = None
  val kafkaScheduler: Scheduler = mock(classOf[KafkaScheduler])
  val transactionCoordinator: TransactionCoordinator = mock(classOf[TransactionCoordinator])
  val dataPlaneRequestHandlerPool: KafkaRequestHandlerPool = null
  val dataPlaneRequestProcessor: KafkaApis = {
    val apis = mock(classOf[KafkaApis])
    when(apis.metadataCache).thenAnswer(_ => metadataCache)
    when(apis.authorizer).thenAnswer(_ => authorizer)
    when(apis.clusterId).thenAnswer(_ => clusterId)
    apis
  }
  val quotaManagers: QuotaFactory.QuotaManagers = null
  val clientToControllerChannelManager: NodeToControllerChannelManager = null
  val tokenCache: DelegationTokenCache = null

  val socketServer: SocketServer = {
    val server = mock(classOf[SocketServer])
    when(server.boundPort(any(classOf[ListenerName]))).thenAnswer(i => boundPort(i.getArgument[ListenerName](0)))
    server
  }
}
