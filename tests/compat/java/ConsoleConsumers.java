import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Base64;

import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/** Runs Kafka's console consumer for each line of arguments, and answers with what it wrote, in base64. */
class ConsoleConsumers {
    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] arguments = line.split("\u0001");
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            System.setOut(new PrintStream(written, true));
            ConsoleConsumer.run(new ConsoleConsumerOptions(arguments));
            System.out.flush();
            answers.println(Base64.getEncoder().encodeToString(written.toByteArray()));
            answers.flush();
        }
        System.exit(0);
    }
}
