/** Clients in Java: the first argument names the one whose checks run. */
public final class Clients {
  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "openai" -> OpenAi.run();
      case "anthropic" -> Anthropic.run();
      case "google" -> Google.run();
      default -> LangChain.run(args[0]);
    }
  }
}
