import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a producer of any version does with transactions, from 2.0 to 3.9: Transactions BOOTSTRAP TOPIC.
 *
 * The topic has two partitions. Each line that it prints is a step and its outcome, separated by a tab.
 */
public final class Transactions {
    private static String bootstrap;
    private static String topic;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        KafkaProducer<String, String> producer = producer("first", 60_000);
        producer.initTransactions();
        transact(producer, "kept", 3);
        producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(3)), topic + "-group");
        producer.commitTransaction();
        transact(producer, "dropped", 3);
        producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(6)), topic + "-group");
        producer.abortTransaction();
        for (int number = 0; number < 20; number++) {
            transact(producer, "again" + number, 1);
            producer.commitTransaction();
        }
        say("committed", read(true).toString());
        say("uncommitted", Integer.toString(read(false).size()));
        say("offset", Long.toString(offset()));

        KafkaProducer<String, String> twin = producer("first", 60_000);
        transact(producer, "zombie", 1);
        twin.initTransactions();
        say("fenced", failure(producer::commitTransaction));
        transact(twin, "twin", 1);
        twin.commitTransaction();
        say("after the fence", Integer.toString(read(true).size()));
        twin.close();

        say("too long", failure(() -> producer("long", 3_600_000).initTransactions()));
        KafkaProducer<String, String> sleeper = producer("sleeper", 1_000);
        sleeper.initTransactions();
        transact(sleeper, "late", 1);
        Thread.sleep(Long.parseLong(args[2]));
        say("timed out", failure(() -> {
            sleeper.send(new ProducerRecord<>(topic, 0, null, "later")).get();
            sleeper.commitTransaction();
        }));
        say("at last", Integer.toString(read(true).size()));
        System.exit(0);
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void transact(KafkaProducer<String, String> producer, String value, int count) throws Exception {
        producer.beginTransaction();
        for (int number = 0; number < count; number++) {
            for (int partition = 0; partition < 2; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, value + number));
            }
        }
        producer.flush();
    }

    private static KafkaProducer<String, String> producer(String id, int timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", topic + "-" + id);
        properties.put("transaction.timeout.ms", Integer.toString(timeoutMs));
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(boolean committed) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", topic + "-group");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> read(boolean committed) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(committed)) {
            for (int partition = 0; partition < 2; partition++) {
                TopicPartition place = new TopicPartition(topic, partition);
                consumer.assign(List.of(place));
                consumer.seekToBeginning(List.of(place));
                long end = consumer.endOffsets(List.of(place)).get(place);
                while (consumer.position(place) < end) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        values.add(record.value());
                    }
                }
            }
        }
        return values;
    }

    private static long offset() {
        try (KafkaConsumer<String, String> consumer = consumer(true)) {
            return consumer.committed(new TopicPartition(topic, 0)).offset();
        }
    }

    /** The class of what a step fails with; of an execution's its cause. */
    private static String failure(Step step) {
        try {
            step.run();
            return "nothing";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }

    private static void say(String step, String outcome) {
        System.out.println(step + "\t" + outcome);
        System.out.flush();
    }
}
