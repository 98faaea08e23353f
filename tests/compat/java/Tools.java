import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache Kafka's command-line tools, one after the other in one virtual machine.
 *
 * Each line on standard input is a main class and its arguments, separated by tabs. The answer is what the tool printed
 * on either stream, each line behind a "|", and then the status that it ended with.
 */
public final class Tools {
    private static final class Ended extends RuntimeException {
    }

    private static Integer status;

    public static void main(String[] args) throws Exception {
        Exit.Procedure end = (code, message) -> {
            // A tool may end again while it unwinds from the first end; that one counts.
            if (status == null) {
                status = code;
                if (message != null) {
                    System.out.println(message);
                }
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        PrintStream out = System.out;
        // One stream for all of them: Scala's console keeps the first that it meets.
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(System.out);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            status = null;
            printed.reset();
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            for (String text : printed.toString(StandardCharsets.UTF_8).split("\n")) {
                out.println("|" + text);
            }
            out.println(status == null ? 0 : status);
            out.flush();
        }
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (status == null) {
                status = 1;
                System.out.println(failure.getCause());
            }
        }
    }
}
