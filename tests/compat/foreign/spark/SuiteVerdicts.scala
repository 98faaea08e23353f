/** Prints a line for each case of ScalaTest. */
import org.scalatest.Reporter
import org.scalatest.events.{Event, RunAborted, SuiteAborted, TestCanceled, TestFailed, TestIgnored, TestSucceeded}

class SuiteVerdicts extends Reporter {
  override def apply(event: Event): Unit = event match {
    case e: TestSucceeded => say("ok", e.suiteName, e.testName, "")
    case e: TestFailed => say("not ok", e.suiteName, e.testName, e.throwable.map(_.toString).getOrElse(e.message))
    case e: TestCanceled => say("skip", e.suiteName, e.testName, e.message)
    case e: TestIgnored => say("skip", e.suiteName, e.testName, "ignored")
    case e: SuiteAborted => say("not ok", e.suiteName, "aborted", e.throwable.map(_.toString).getOrElse(e.message))
    case e: RunAborted => say("not ok", "run", "aborted", e.throwable.map(_.toString).getOrElse(e.message))
    case _ =>
  }

  private def say(verdict: String, suite: String, test: String, why: String): Unit = synchronized {
    println(s"$verdict\t$suite: ${plain(test)}\t${plain(why).take(400)}")
    Console.flush()
  }

  private def plain(text: String): String = text.replaceAll("\\s+", " ")
}
