import com.google.genai.Client;
import com.google.genai.ResponseStream;
import com.google.genai.errors.ClientException;
import com.google.genai.types.Content;
import com.google.genai.types.FunctionCall;
import com.google.genai.types.FunctionDeclaration;
import com.google.genai.types.FunctionResponse;
import com.google.genai.types.GenerateContentConfig;
import com.google.genai.types.GenerateContentResponse;
import com.google.genai.types.HttpOptions;
import com.google.genai.types.Part;
import com.google.genai.types.Tool;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Google's Java client. */
final class Google {
  static Client clientOf(String key) {
    return Client.builder().apiKey(key).httpOptions(HttpOptions.builder().baseUrl(Checks.url).build()).build();
  }

  static final Client client = clientOf(Checks.key);
  static final GenerateContentConfig plain = GenerateContentConfig.builder().build();

  interface Ask {
    List<Part> of(String model, List<Content> contents, GenerateContentConfig config);
  }

  static Content userOf(String text) {
    return Content.builder().role("user").parts(Part.fromText(text)).build();
  }

  static List<Part> partsOf(GenerateContentResponse response) {
    return new ArrayList<>(response.candidates().orElse(List.of()).get(0).content().flatMap(Content::parts).orElse(List.of()));
  }

  static List<Part> whole(String model, List<Content> contents, GenerateContentConfig config) {
    return partsOf(client.models.generateContent(model, contents, config));
  }

  static List<Part> streamed(String model, List<Content> contents, GenerateContentConfig config, List<Part> parts) {
    try (ResponseStream<GenerateContentResponse> stream = client.models.generateContentStream(model, contents, config)) {
      for (GenerateContentResponse chunk : stream) parts.addAll(partsOf(chunk));
    }
    return parts;
  }

  static String textOf(List<Part> parts) {
    StringBuilder text = new StringBuilder();
    for (Part part : parts) if (!part.thought().orElse(false)) part.text().ifPresent(text::append);
    return text.toString();
  }

  static final List<Ask> ways =
      List.of(Google::whole, (model, contents, config) -> streamed(model, contents, config, new ArrayList<>()));

  static void loop(Ask ask) throws Exception {
    FunctionDeclaration declaration =
        FunctionDeclaration.builder()
            .name("get_weather")
            .description("Says the weather of a city.")
            .parametersJsonSchema(Checks.schema)
            .build();
    GenerateContentConfig config =
        GenerateContentConfig.builder().tools(Tool.builder().functionDeclarations(declaration).build()).build();
    for (String name : Checks.models) {
      List<Content> contents = new ArrayList<>(List.of(userOf(Checks.question)));
      List<Part> parts = ask.of(name, contents, config);
      List<Part> results = new ArrayList<>();
      for (Part part : parts)
        if (part.functionCall().isPresent()) {
          FunctionCall call = part.functionCall().get();
          String output = Checks.getWeather(Checks.mapper.writeValueAsString(call.args().orElse(Map.of())));
          FunctionResponse.Builder response =
              FunctionResponse.builder().name(call.name().orElseThrow()).response(Map.of("output", output));
          call.id().ifPresent(response::id);
          results.add(Part.builder().functionResponse(response.build()).build());
        }
      contents.add(Content.builder().role("model").parts(parts).build());
      contents.add(Content.builder().role("user").parts(results).build());
      parts = ask.of(name, contents, config);
      Checks.usedTool(textOf(parts));
      contents.add(Content.builder().role("model").parts(parts).build());
      contents.add(userOf("hello there"));
      Checks.equal(textOf(ask.of(name, contents, config)), Checks.greeting);
    }
  }

  static void run() throws Exception {
    List<Content> hello = List.of(userOf("hello there"));
    new Checks()
        .add(
            "whole answer",
            () -> {
              for (String name : Checks.models) {
                GenerateContentResponse response = client.models.generateContent(name, "hello there", plain);
                Checks.equal(response.text(), Checks.greeting);
                Checks.check(response.usageMetadata().orElseThrow().totalTokenCount().orElse(0) > 0, response);
              }
            })
        .add(
            "streamed answer",
            () -> {
              for (String name : Checks.models) Checks.equal(textOf(ways.get(1).of(name, hello, plain)), Checks.greeting);
            })
        .add("tool loop", () -> loop(ways.get(0)))
        .add("streamed tool loop", () -> loop(ways.get(1)))
        .add(
            "structured output",
            () -> {
              GenerateContentConfig config =
                  GenerateContentConfig.builder()
                      .responseMimeType("application/json")
                      .responseJsonSchema(Checks.answerSchema)
                      .build();
              for (String name : Checks.models) Checks.isAnswer(textOf(whole(name, hello, config)));
            })
        .add(
            "count tokens",
            () -> Checks.check(client.models.countTokens(Checks.model, "hello there", null).totalTokens().orElse(0) > 0, "no tokens"))
        .add(
            "wrong key",
            () ->
                Checks.refused(
                    ClientException.class,
                    () -> clientOf("nothing").models.generateContent(Checks.model, "hello there", plain)))
        .add(
            "broken stream",
            () -> {
              List<Part> parts = new ArrayList<>();
              Throwable error = null;
              try {
                streamed(Checks.broken, hello, plain, parts);
              } catch (Throwable caught) {
                error = caught;
              }
              Checks.failed(textOf(parts), error);
            })
        .add(
            "keep-alives",
            () -> Checks.equal(textOf(ways.get(1).of(Checks.paused, hello, plain)), Checks.pausedText))
        .run();
  }
}
