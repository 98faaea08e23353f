import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What people ask of Kafka's AdminClient, each call once, against the cluster and under the topic prefix that are given.
 *
 * Each call answers with one line: its name, a tab, and what came, or "!" with the class of the exception and its text.
 */
public final class AdminCalls {
    private static final long PATIENCE_MS = 60_000;
    private static Admin admin;
    private static Properties properties;
    private static String made;
    private static String placed;
    private static String group;

    public static void main(String[] args) throws Exception {
        properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("request.timeout.ms", "60000");
        properties.put("default.api.timeout.ms", "120000");
        made = args[1] + "-made";
        placed = args[1] + "-placed";
        group = args[1] + "-group";
        try (Admin opened = Admin.create(properties)) {
            admin = opened;
            topics();
            configurations();
            cluster();
            records();
            placements();
            groups();
            refused();
            deletions();
        }
    }

    private static void topics() throws Exception {
        NewTopic plain = new NewTopic(made, 3, (short) 3).configs(Map.of("retention.ms", "7200000"));
        NewTopic byHand = new NewTopic(placed, Map.of(0, List.of(2, 0), 1, List.of(0, 1)));
        show("create validate", () -> admin.createTopics(
            List.of(plain), new CreateTopicsOptions().validateOnly(true)).numPartitions(made).get());
        CreateTopicsResult created = admin.createTopics(List.of(plain, byHand));
        show("create", () -> created.numPartitions(made).get() + " x " + created.replicationFactor(made).get());
        show("create config", () -> created.config(made).get().get("retention.ms").value());
        show("create placed", () -> created.numPartitions(placed).get() + " x " + created.replicationFactor(placed).get());
        create("create again", new NewTopic(made, 1, (short) 1));
        create("create replicas", new NewTopic(made + "x", 1, (short) 9));
        create("create partitions", new NewTopic(made + "x", 0, (short) 1));
        create("create name", new NewTopic("no such name", 1, (short) 1));
        create("create setting", new NewTopic(made + "x", 1, (short) 1).configs(Map.of("retention.ms", "long")));
        create("create placement", new NewTopic(made + "x", Map.of(0, List.of(0, 0))));
        until(() -> admin.describeTopics(List.of(made, placed)).allTopicNames().get().size() == 2);
        show("list", () -> {
            Map<String, TopicListing> listed = admin.listTopics().namesToListings().get();
            return listed.get(made).topicId().equals(created.topicId(made).get()) && listed.containsKey(placed);
        });
        show("describe", () -> replicas(admin.describeTopics(List.of(placed)).allTopicNames().get().get(placed)));
        Uuid id = created.topicId(made).get();
        until(() -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().size() == 1);
        show("describe id", () -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name().equals(made));
        show("describe unknown", () -> admin.describeTopics(List.of(made + "x")).allTopicNames().get());
        show("describe unknown id", () -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds().get());
        show("describe operations", () -> admin.describeTopics(List.of(made),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get()
            .get(made).authorizedOperations().size());
        show("partitions", () -> admin.createPartitions(Map.of(made, NewPartitions.increaseTo(4))).all().get());
        until(() -> admin.describeTopics(List.of(made)).allTopicNames().get().get(made).partitions().size() == 4);
        show("partitions fewer", () -> admin.createPartitions(Map.of(made, NewPartitions.increaseTo(2))).all().get());
    }

    private static void configurations() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, made);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
        show("topic config", () -> entry(topic, "retention.ms"));
        show("topic config alter", () -> alter(topic, "retention.ms", "3600000", AlterConfigOp.OpType.SET));
        show("topic config append", () -> alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
        until(() -> entry(topic, "cleanup.policy").startsWith("delete,compact"));
        show("topic config altered", () -> entry(topic, "retention.ms"));
        show("topic config wrong", () -> alter(topic, "retention.ms", "long", AlterConfigOp.OpType.SET));
        show("topic config unknown", () -> alter(topic, "no.such", "1", AlterConfigOp.OpType.SET));
        show("topic config nowhere", () -> entry(
            new ConfigResource(ConfigResource.Type.TOPIC, made + "x"), "retention.ms"));
        show("broker config", () -> entry(broker, "log.cleaner.threads"));
        show("broker config alter", () -> alter(broker, "log.cleaner.threads", "2", AlterConfigOp.OpType.SET));
        until(() -> entry(broker, "log.cleaner.threads").startsWith("2 "));
        show("broker config altered", () -> entry(broker, "log.cleaner.threads"));
        show("broker config read-only", () -> alter(broker, "broker.rack", "r", AlterConfigOp.OpType.SET));
        show("broker config host", () -> alter(
            broker, "max.connections.per.ip.overrides", "nobody.invalid:5", AlterConfigOp.OpType.SET));
        show("broker config delete", () -> alter(broker, "log.cleaner.threads", "", AlterConfigOp.OpType.DELETE));
        show("default config alter", () -> alter(all, "max.connections.per.ip", "9999", AlterConfigOp.OpType.SET));
        until(() -> entry(broker, "max.connections.per.ip").startsWith("9999 "));
        show("default config", () -> entry(broker, "max.connections.per.ip"));
        show("default config delete", () -> alter(all, "max.connections.per.ip", "", AlterConfigOp.OpType.DELETE));
        String logger = admin.describeConfigs(List.of(loggers)).all().get().get(loggers).entries().stream()
            .map(ConfigEntry::name).filter(name -> !name.equals("root")).sorted().findFirst().orElseThrow();
        show("logger alter", () -> alter(loggers, logger, "DEBUG", AlterConfigOp.OpType.SET));
        show("logger", () -> entry(loggers, logger));
        show("logger delete", () -> alter(loggers, logger, "", AlterConfigOp.OpType.DELETE));
        show("logger wrong", () -> alter(loggers, logger, "LOUD", AlterConfigOp.OpType.SET));
    }

    private static void cluster() throws Exception {
        DescribeClusterResult found = admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true));
        show("cluster nodes", () -> new TreeSet<>(found.nodes().get().stream().map(Node::id).toList()));
        show("cluster controller", () -> found.nodes().get().contains(found.controller().get()));
        show("cluster id", () -> found.clusterId().get().length());
        show("cluster operations", () -> found.authorizedOperations().get().size());
        show("features", () -> {
            FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
            return features.finalizedFeatures() + " " + features.supportedFeatures();
        });
    }

    private static void records() throws Exception {
        TopicPartition zero = new TopicPartition(made, 0);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) {
                long time = 1_700_000_000_000L + (i == 6 ? 500_000 : i * 1000);
                producer.send(new ProducerRecord<>(made, 0, time, "k", "v" + i)).get();
            }
            show("producers", () -> admin.describeProducers(List.of(zero)).partitionResult(zero).get()
                .activeProducers().stream().map(each -> each.lastSequence()).toList());
        }
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of(
            "earliest", OffsetSpec.earliest(),
            "latest", OffsetSpec.latest(),
            "max timestamp", OffsetSpec.maxTimestamp(),
            "timestamp", OffsetSpec.forTimestamp(1_700_000_002_500L),
            "late timestamp", OffsetSpec.forTimestamp(1_800_000_000_000L),
            "earliest local", OffsetSpec.earliestLocal(),
            "latest tiered", OffsetSpec.latestTiered()));
        for (Map.Entry<String, OffsetSpec> each : specs.entrySet()) {
            show("offset " + each.getKey(), () -> offset(zero, each.getValue()));
        }
        show("offset committed", () -> admin.listOffsets(Map.of(zero, OffsetSpec.latest()),
            new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(zero).get().offset());
        show("delete records", () -> admin.deleteRecords(
            Map.of(zero, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(zero).get().lowWatermark());
        show("offset after deletion", () -> offset(zero, OffsetSpec.earliest()));
        show("delete records past the end", () -> admin.deleteRecords(
            Map.of(zero, RecordsToDelete.beforeOffset(99))).all().get());
        show("log directories", () -> {
            Map<Integer, Map<String, LogDirDescription>> found = admin.describeLogDirs(List.of(0, 1, 2)).allDescriptions().get();
            int replicas = 0;
            for (Map<String, LogDirDescription> directories : found.values()) {
                for (LogDirDescription each : directories.values()) {
                    replicas += each.replicaInfos().containsKey(zero) && each.totalBytes().isPresent() ? 1 : 0;
                }
            }
            return found.size() + " " + replicas;
        });
        TopicPartitionReplica replica = new TopicPartitionReplica(made, 0, 1);
        show("replica directory", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get()
            .get(replica).getCurrentReplicaLogDir() != null);
    }

    private static void placements() throws Exception {
        TopicPartition zero = new TopicPartition(placed, 0);
        show("elect preferred", () -> elect(ElectionType.PREFERRED, zero));
        show("elect unclean", () -> elect(ElectionType.UNCLEAN, zero));
        show("elect unknown", () -> elect(ElectionType.PREFERRED, new TopicPartition(placed + "x", 0)));
        show("elect all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().size() >= 0);
        show("reassign", () -> reassign(zero, Optional.of(new NewPartitionReassignment(List.of(0, 1, 2)))));
        until(() -> admin.listPartitionReassignments(Set.of(zero)).reassignments().get().isEmpty());
        until(() -> replicas(admin.describeTopics(List.of(placed)).allTopicNames().get().get(placed))
            .startsWith("[[0, 1, 2]"));
        show("reassigned", () -> replicas(admin.describeTopics(List.of(placed)).allTopicNames().get().get(placed)));
        show("reassign nowhere", () -> reassign(zero, Optional.of(new NewPartitionReassignment(List.of(7)))));
        show("reassign cancel", () -> reassign(zero, Optional.empty()));
        show("reassignments", () -> admin.listPartitionReassignments().reassignments().get());
    }

    private static void groups() throws Exception {
        TopicPartition zero = new TopicPartition(made, 0);
        TopicPartition one = new TopicPartition(made, 1);
        properties.put("group.id", group);
        properties.put("group.instance.id", "instance");
        properties.put("auto.offset.reset", "earliest");
        properties.put("session.timeout.ms", "45000");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(made));
            until(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty());
            consumer.commitSync(Map.of(zero, new OffsetAndMetadata(7, "seven"), one, new OffsetAndMetadata(0)));
            show("groups", () -> admin.listConsumerGroups().all().get().stream()
                .filter(each -> each.groupId().equals(group)).map(each -> each.state() + "").toList());
            show("groups stable", () -> listed(ConsumerGroupState.STABLE));
            show("groups empty", () -> listed(ConsumerGroupState.EMPTY));
            show("group", () -> {
                ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                MemberDescription member = found.members().iterator().next();
                return found.state() + " " + found.partitionAssignor() + " " + member.groupInstanceId().get() + " "
                    + member.assignment().topicPartitions().size() + " " + (found.coordinator() != null);
            });
            show("group offsets", () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .get(zero));
            show("group offsets alter active", () -> admin.alterConsumerGroupOffsets(
                group, Map.of(zero, new OffsetAndMetadata(5))).all().get());
            show("group delete active", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            show("group offsets delete active", () -> admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get());
        }
        show("group remove member", () -> admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("instance")))).all().get());
        until(() -> listed(ConsumerGroupState.EMPTY) == 1);
        show("group offsets alter", () -> admin.alterConsumerGroupOffsets(
            group, Map.of(zero, new OffsetAndMetadata(5))).all().get());
        show("group offsets altered", () -> admin.listConsumerGroupOffsets(
            Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(zero))))
            .partitionsToOffsetAndMetadata(group).get().get(zero).offset());
        show("group offsets delete", () -> admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get());
        show("group offsets left", () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .keySet().stream().allMatch(each -> each.partition() != 1));
        show("group delete", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        show("group delete again", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        show("group unknown", () -> admin.describeConsumerGroups(List.of(group)).all().get().get(group).state());
    }

    private static void refused() {
        AclBinding acl = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, made, PatternType.LITERAL),
            new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "x"));
        TopicPartition zero = new TopicPartition(made, 0);
        show("describe acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        show("create acls", () -> admin.createAcls(List.of(acl)).all().get());
        show("delete acls", () -> admin.deleteAcls(List.of(acl.toFilter())).all().get());
        show("describe scram", () -> admin.describeUserScramCredentials().all().get());
        show("alter scram", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("x", ScramMechanism.SCRAM_SHA_256))).all().get());
        show("create token", () -> admin.createDelegationToken().delegationToken().get());
        show("describe token", () -> admin.describeDelegationToken().delegationTokens().get());
        show("describe quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        show("alter quotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1.0))))).all().get());
        show("list transactions", () -> admin.listTransactions(
            new ListTransactionsOptions().filterProducerIds(List.of(Long.MAX_VALUE))).all().get());
        show("describe transactions", () -> admin.describeTransactions(List.of("x")).all().get());
        show("abort transaction", () -> admin.abortTransaction(
            new AbortTransactionSpec(zero, 1, (short) 1, 1)).all().get());
        show("alter directories", () -> admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(made, 0, 1), "/elsewhere")).all().get());
        show("refused quorum", () -> admin.describeMetadataQuorum().quorumInfo().get());
        show("refused unregister", () -> admin.unregisterBroker(1).all().get());
        show("refused client metrics", () -> admin.listClientMetricsResources().all().get());
        Properties transactional = new Properties();
        transactional.putAll(properties);
        transactional.put("transactional.id", "x");
        transactional.put("max.block.ms", "20000");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(transactional, new StringSerializer(), new StringSerializer())) {
            show("transactions", () -> {
                producer.initTransactions();
                return "begun";
            });
        }
    }

    private static void deletions() throws Exception {
        Uuid id = admin.describeTopics(List.of(placed)).allTopicNames().get().get(placed).topicId();
        show("delete", () -> admin.deleteTopics(List.of(made)).all().get());
        show("delete id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
        until(() -> admin.listTopics().names().get().stream().noneMatch(each -> each.equals(made) || each.equals(placed)));
        show("delete unknown", () -> admin.deleteTopics(List.of(made)).all().get());
        show("delete unknown id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
    }

    private static void create(String what, NewTopic topic) {
        show(what, () -> admin.createTopics(List.of(topic)).all().get());
    }

    private static String replicas(TopicDescription topic) {
        return topic.partitions().stream().map(each -> each.replicas().stream().map(Node::id).toList()).toList().toString();
    }

    private static String entry(ConfigResource resource, String name) throws Exception {
        ConfigEntry found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return found.value() + " " + found.source();
    }

    private static Object alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType how)
            throws Exception {
        Collection<AlterConfigOp> changes = List.of(new AlterConfigOp(new ConfigEntry(name, value), how));
        return admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private static String offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        ListOffsetsResult.ListOffsetsResultInfo found =
            admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
        return found.offset() + " " + found.timestamp();
    }

    private static String elect(ElectionType how, TopicPartition partition) throws Exception {
        Optional<Throwable> failure =
            admin.electLeaders(how, Set.of(partition)).partitions().get().get(partition);
        return failure.map(each -> each.getClass().getSimpleName()).orElse("elected");
    }

    private static Object reassign(TopicPartition partition, Optional<NewPartitionReassignment> target) throws Exception {
        return admin.alterPartitionReassignments(Map.of(partition, target)).all().get();
    }

    private static long listed(ConsumerGroupState state) throws Exception {
        return admin.listConsumerGroups(new ListConsumerGroupsOptions().inStates(Set.of(state))).all().get().stream()
            .filter(each -> each.groupId().equals(group)).count();
    }

    private static void until(Callable<Boolean> holds) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                if (holds.call()) {
                    return;
                }
            } catch (ExecutionException e) {
                if (System.currentTimeMillis() > end) {
                    throw e;
                }
            }
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("what was waited for did not come about");
            }
            Thread.sleep(20);
        }
    }

    private static void show(String what, Callable<Object> call) {
        String text;
        try {
            text = String.valueOf(call.call());
        } catch (ExecutionException e) {
            text = "!" + e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
        } catch (Exception e) {
            text = "!" + e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        System.out.println(what + "\t" + text.replace('\n', ' '));
    }
}
