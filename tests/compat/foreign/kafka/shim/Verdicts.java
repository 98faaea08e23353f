import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

import java.io.PrintStream;
import java.util.Optional;

/** Prints a line for each case, and leaves out those which need KRaft: they would not start our brokers. */
public class Verdicts implements TestExecutionListener, ExecutionCondition {
    private static final PrintStream OUT = System.out;

    private TestPlan plan;

    @Override
    public void testPlanExecutionStarted(TestPlan started) {
        plan = started;
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Optional<Throwable> problem = result.getThrowable();
        if (!test.isTest() && problem.isEmpty()) {
            return;
        }
        if (result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
            say("ok", test, "");
        } else if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
            say("skip", test, problem.map(Verdicts::brief).orElse(""));
        } else {
            say("not ok", test, problem.map(Verdicts::brief).orElse(""));
        }
    }

    private void say(String verdict, TestIdentifier test, String why) {
        StringBuilder name = new StringBuilder(test.getDisplayName());
        TestIdentifier above = test;
        while (plan.getParent(above).isPresent() && !isClass(above)) {
            above = plan.getParent(above).get();
            name.insert(0, above.getDisplayName() + (isClass(above) ? "." : ""));
        }
        String plain = name.toString().replaceAll("\\s+", "").replaceAll("\\d{10,}", "TIME");
        OUT.println(verdict + "\t" + plain + "\t" + why.replaceAll("\\s+", " "));
        OUT.flush();
    }

    private static boolean isClass(TestIdentifier test) {
        return test.getSource().map(source -> source instanceof ClassSource).orElse(false);
    }

    private static String brief(Throwable problem) {
        StringBuilder text = new StringBuilder(problem.toString());
        for (StackTraceElement element : problem.getStackTrace()) {
            if (element.getClassName().startsWith("kafka.api") || element.getClassName().startsWith("kafka.server")
                    || element.getClassName().startsWith("kafka.admin")) {
                text.append(" at ").append(element);
                break;
            }
        }
        return text.length() > 400 ? text.substring(0, 400) : text.toString();
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String name = context.getDisplayName();
        boolean other = name.contains("kraft") || name.contains("groupProtocol=consumer") || name.contains("Type=Raft")
                || name.contains("Type=Kraft") || name.contains("CO_KRAFT");
        return other ? ConditionEvaluationResult.disabled("needs KRaft") : ConditionEvaluationResult.enabled("");
    }
}
