import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Questions and reports that the checks of all clients share. The environment names the gateway,
 * the key and the models.
 */
final class Checks {
  static final String url = System.getenv("SLUICE_URL");
  static final String key = System.getenv("SLUICE_KEY");
  static final String model = System.getenv("SLUICE_MODEL");
  static final String broken = System.getenv("SLUICE_BROKEN_MODEL");
  static final String paused = System.getenv("SLUICE_PAUSED_MODEL");
  static final String reasoner = System.getenv("SLUICE_REASONER");
  static final List<String> models = List.of(model, reasoner);

  static final String greeting =
      "You said: hello there\nThis is the simulator: the same words always get the same answer.";
  static final String question = "Use get_weather for \"Paris\".";
  static final String pausedText = "You said:";
  static final Map<String, Object> properties = Map.of("city", Map.of("type", "string"));
  static final Map<String, Object> schema =
      Map.of("type", "object", "properties", properties, "required", List.of("city"), "additionalProperties", false);
  static final Map<String, Object> answerSchema =
      Map.of(
          "type", "object",
          "properties", Map.of("color", Map.of("type", "string", "enum", List.of("red", "green"))),
          "required", List.of("color"),
          "additionalProperties", false);

  static final ObjectMapper mapper = new ObjectMapper();

  interface Check {
    void run() throws Exception;
  }

  private final Map<String, Check> checks = new LinkedHashMap<>();

  Checks add(String name, Check check) {
    checks.put(name, check);
    return this;
  }

  /** Runs every check, prints one line of JSON for each, and exits with 1 if one failed. */
  void run() throws Exception {
    int exitCode = 0;
    for (Map.Entry<String, Check> entry : checks.entrySet()) {
      long began = System.currentTimeMillis();
      String error = null;
      try {
        entry.getValue().run();
      } catch (Throwable caught) {
        error = caught.toString();
        exitCode = 1;
        caught.printStackTrace();
      }
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("check", entry.getKey());
      line.put("error", error);
      line.put("ms", System.currentTimeMillis() - began);
      System.out.println(mapper.writeValueAsString(line));
    }
    System.out.flush();
    System.exit(exitCode);
  }

  static void check(boolean isTrue, Object told) {
    if (!isTrue) throw new AssertionError(String.valueOf(told));
  }

  static String getWeather(String arguments) throws Exception {
    check("Paris".equals(mapper.readTree(arguments).path("city").asText()), arguments);
    return "It rains.";
  }

  static void usedTool(String text) {
    check(text.contains("The tool get_weather returned: ") && text.contains("It rains."), text);
  }

  static void isAnswer(String text) throws Exception {
    JsonNode color = mapper.readTree(text).path("color");
    check(List.of("red", "green").contains(color.asText()), text);
  }

  static void equal(Object actual, Object expected) {
    check(expected.equals(actual), actual);
  }

  /** Fails unless a stream had content, and then an error with the gateway's words. */
  static void failed(String text, Throwable error) {
    check(!text.isEmpty(), "no content before the error: " + error);
    StringBuilder words = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) words.append(cause).append('\n');
    check(words.indexOf("The upstream of this model failed") >= 0, "error: " + words);
  }

  /** Fails unless the call is refused with this class of exception, or one that it caused. */
  static void refused(Class<? extends Throwable> kind, Check call) {
    try {
      call.run();
    } catch (Throwable caught) {
      for (Throwable cause = caught; cause != null; cause = cause.getCause()) if (kind.isInstance(cause)) return;
      throw new AssertionError(caught.toString(), caught);
    }
    throw new AssertionError("no error");
  }
}
