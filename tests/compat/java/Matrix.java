import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java clients, driven by lines on standard input and answering on standard output, so that one virtual machine
 * serves a whole test. Fields are separated by tabs, bytes are Base64, "-" is null.
 *
 *   create TOPIC PARTITIONS REPLICAS
 *   produce TOPIC ACKS CODEC IDEMPOTENT       then records: PARTITION KEY VALUE TIMESTAMP, then "."
 *   consume TOPIC PARTITION OFFSET COUNT      answers records: PARTITION OFFSET KEY VALUE TIMESTAMP HEADERS, then "."
 *   search TOPIC PARTITION TIMESTAMP          answers the offset, or "-"
 *
 * Each command ends with the line "ok", or with "error" and the exception.
 */
public final class Matrix {
    private static final PrintStream OUT = new PrintStream(System.out, false);
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            try {
                switch (words[0]) {
                    case "create" -> create(words);
                    case "produce" -> produce(words, in);
                    case "consume" -> consume(words);
                    case "search" -> search(words);
                    default -> throw new IllegalArgumentException("no such command: " + words[0]);
                }
                OUT.println("ok");
            } catch (Exception e) {
                OUT.println("error\t" + e);
            }
            OUT.flush();
        }
    }

    private static void create(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), Short.parseShort(words[3]));
            admin.createTopics(List.of(topic)).all().get();
        }
    }

    private static void produce(String[] words, BufferedReader in) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("acks", words[2]);
        properties.put("compression.type", words[3]);
        properties.put("enable.idempotence", words[4]);
        properties.put("linger.ms", "5");
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = in.readLine(); !line.equals("."); line = in.readLine()) {
                String[] fields = line.split("\t");
                List<Header> headers = new ArrayList<>();
                for (int i = 4; i + 1 < fields.length; i += 2) {
                    headers.add(new RecordHeader(fields[i], bytes(fields[i + 1])));
                }
                pending.add(producer.send(new ProducerRecord<>(
                        words[1], Integer.valueOf(fields[0]), Long.valueOf(fields[3]),
                        bytes(fields[1]), bytes(fields[2]), headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : pending) {
                future.get();
            }
        }
    }

    private static void consume(String[] words) {
        TopicPartition partition = new TopicPartition(words[1], Integer.parseInt(words[2]));
        int left = Integer.parseInt(words[4]);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(words[3]));
            while (left > 0) {
                var records = consumer.poll(Duration.ofSeconds(20));
                if (records.isEmpty()) {
                    throw new IllegalStateException(left + " records did not come");
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    OUT.println(text(record));
                    left--;
                }
            }
        }
        OUT.println(".");
    }

    private static void search(String[] words) {
        TopicPartition partition = new TopicPartition(words[1], Integer.parseInt(words[2]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            Map<TopicPartition, Long> question = new HashMap<>();
            question.put(partition, Long.valueOf(words[3]));
            OffsetAndTimestamp answer = consumer.offsetsForTimes(question).get(partition);
            OUT.println(answer == null ? "-" : Long.toString(answer.offset()));
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }

    private static String field(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder out = new StringBuilder();
        out.append(record.partition()).append('\t').append(record.offset()).append('\t');
        out.append(field(record.key())).append('\t').append(field(record.value())).append('\t').append(record.timestamp());
        for (Header header : record.headers()) {
            out.append('\t').append(header.key()).append('\t').append(field(header.value()));
        }
        return out.toString();
    }
}
