import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group, saying the same lines as member_process.py: bootstrap group topic assignor session-ms [instance]. */
public class Member {
    private static volatile boolean stopping = false;

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + args[3]);
        int session = Integer.parseInt(args[4]);
        settings.put("session.timeout.ms", session);
        settings.put("heartbeat.interval.ms", session / 5);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", 500);
        settings.put("fetch.max.wait.ms", 50);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("max.poll.records", 200);
        if (args.length > 5) settings.put("group.instance.id", args[5]);
        String topic = args[2];
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join(10_000);
            } catch (InterruptedException ignored) {
            }
        }));
        // What was consumed and is not committed yet: a refused commit is tried again while the partition is ours.
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("assigned", "\"partitions\": " + numbers(partitions)
                    + ", \"generation\": " + consumer.groupMetadata().generationId());
            }

            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                positions.keySet().removeAll(partitions);
                say("revoked", "\"partitions\": " + numbers(partitions));
            }

            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                positions.keySet().removeAll(partitions);
                say("lost", "\"partitions\": " + numbers(partitions));
            }
        });
        while (!stopping) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            for (TopicPartition partition : records.partitions()) {
                List<Long> offsets = new ArrayList<>();
                for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) offsets.add(record.offset());
                say("consumed", "\"partition\": " + partition.partition() + ", \"offsets\": " + offsets);
                positions.put(partition, new OffsetAndMetadata(offsets.get(offsets.size() - 1) + 1));
            }
            if (positions.isEmpty()) continue;
            List<String> told = new ArrayList<>();
            positions.forEach((partition, position) ->
                told.add("\"" + partition.partition() + "\": " + position.offset()));
            try {
                consumer.commitSync(positions);
                say("committed", "\"positions\": {" + String.join(", ", told) + "}");
                positions.clear();
            } catch (KafkaException error) {
                say("refused", "\"why\": \"" + error.getClass().getSimpleName() + "\"");
            }
        }
        consumer.close();
        say("closed", "\"partitions\": []");
    }

    private static List<Integer> numbers(Collection<TopicPartition> partitions) {
        List<Integer> found = new ArrayList<>();
        for (TopicPartition partition : partitions) found.add(partition.partition());
        return found;
    }

    private static synchronized void say(String event, String rest) {
        System.out.println("{\"event\": \"" + event + "\", \"at\": " + System.nanoTime() / 1e9 + ", " + rest + "}");
        System.out.flush();
    }
}
