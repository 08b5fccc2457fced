import com.anthropic.client.AnthropicClient;
import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.core.JsonValue;
import com.anthropic.core.http.StreamResponse;
import com.anthropic.errors.UnauthorizedException;
import com.anthropic.helpers.MessageAccumulator;
import com.anthropic.models.messages.ContentBlock;
import com.anthropic.models.messages.ContentBlockParam;
import com.anthropic.models.messages.Message;
import com.anthropic.models.messages.MessageCountTokensParams;
import com.anthropic.models.messages.MessageCreateParams;
import com.anthropic.models.messages.RawMessageStreamEvent;
import com.anthropic.models.messages.ThinkingConfigAdaptive;
import com.anthropic.models.messages.Tool;
import com.anthropic.models.messages.ToolResultBlockParam;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** Anthropic's Java client. */
final class Anthropic {
  enum Color {
    red,
    green
  }

  static class Answer {
    public Color color;
  }

  static AnthropicClient clientOf(String key) {
    return AnthropicOkHttpClient.builder().apiKey(key).baseUrl(Checks.url).maxRetries(0).build();
  }

  static final AnthropicClient client = clientOf(Checks.key);

  static MessageCreateParams.Builder requestOf(String model, String text) {
    return MessageCreateParams.builder().model(model).maxTokens(2000).addUserMessage(text);
  }

  static String textOf(Message message) {
    StringBuilder text = new StringBuilder();
    for (ContentBlock block : message.content()) block.text().ifPresent(part -> text.append(part.text()));
    return text.toString();
  }

  static Message streamed(MessageCreateParams params, StringBuilder text) {
    MessageAccumulator accumulator = MessageAccumulator.create();
    try (StreamResponse<RawMessageStreamEvent> stream = client.messages().createStreaming(params)) {
      Iterator<RawMessageStreamEvent> events = stream.stream().iterator();
      while (events.hasNext())
        accumulator
            .accumulate(events.next())
            .contentBlockDelta()
            .ifPresent(event -> event.delta().text().ifPresent(delta -> text.append(delta.text())));
    }
    return accumulator.message();
  }

  static final List<OpenAi.Ask<MessageCreateParams, Message>> ways =
      List.of(params -> client.messages().create(params), params -> streamed(params, new StringBuilder()));

  static void answers(OpenAi.Ask<MessageCreateParams, Message> ask) {
    for (String name : Checks.models) {
      Message message = ask.of(requestOf(name, "hello there").build());
      Checks.equal(textOf(message), Checks.greeting);
      Checks.check(message.usage().inputTokens() > 0 && message.usage().outputTokens() > 0, message);
    }
  }

  static void loop(OpenAi.Ask<MessageCreateParams, Message> ask) throws Exception {
    Tool tool =
        Tool.builder()
            .name("get_weather")
            .description("Says the weather of a city.")
            .inputSchema(
                Tool.InputSchema.builder()
                    .properties(
                        Tool.InputSchema.Properties.builder()
                            .putAdditionalProperty("city", JsonValue.from(Map.of("type", "string")))
                            .build())
                    .required(List.of("city"))
                    .build())
            .build();
    for (String name : Checks.models) {
      MessageCreateParams.Builder params = requestOf(name, Checks.question).addTool(tool);
      if (name.equals(Checks.reasoner)) params.thinking(ThinkingConfigAdaptive.builder().build());
      Message message = ask.of(params.build());
      params.addMessage(message);
      List<ContentBlockParam> results = new ArrayList<>();
      for (ContentBlock block : message.content())
        if (block.isToolUse())
          results.add(
              ContentBlockParam.ofToolResult(
                  ToolResultBlockParam.builder()
                      .toolUseId(block.asToolUse().id())
                      .content(Checks.getWeather(Checks.mapper.writeValueAsString(block.asToolUse()._input().convert(Map.class))))
                      .build()));
      params.addUserMessageOfContentBlockParams(results);
      message = ask.of(params.build());
      Checks.usedTool(textOf(message));
      params.addMessage(message).addUserMessage("hello there");
      Checks.equal(textOf(ask.of(params.build())), Checks.greeting);
    }
  }

  static void run() throws Exception {
    new Checks()
        .add("whole answer", () -> answers(ways.get(0)))
        .add("streamed answer", () -> answers(ways.get(1)))
        .add("tool loop", () -> loop(ways.get(0)))
        .add("streamed tool loop", () -> loop(ways.get(1)))
        .add(
            "structured output",
            () -> {
              for (String name : Checks.models) {
                var message = client.messages().create(requestOf(name, "hello there").outputConfig(Answer.class).build());
                long found =
                    message.content().stream().filter(block -> block.text().map(text -> text.text().color).isPresent()).count();
                Checks.equal(found, 1L);
              }
            })
        .add(
            "count tokens and models",
            () -> {
              var params = MessageCountTokensParams.builder().model(Checks.model).addUserMessage("hello there").build();
              Checks.check(client.messages().countTokens(params).inputTokens() > 0, "no tokens");
              Checks.check(client.models().list().autoPager().stream().anyMatch(info -> info.id().equals(Checks.model)), "no model");
            })
        .add(
            "wrong key",
            () ->
                Checks.refused(
                    UnauthorizedException.class,
                    () -> clientOf("nothing").messages().create(requestOf(Checks.model, "hello there").build())))
        .add(
            "broken stream",
            () -> {
              StringBuilder text = new StringBuilder();
              OpenAi.broken(() -> streamed(requestOf(Checks.broken, "hello there").build(), text), text);
            })
        .add(
            "keep-alives",
            () -> {
              StringBuilder text = new StringBuilder();
              streamed(requestOf(Checks.paused, "hello there").build(), text);
              Checks.equal(text.toString(), Checks.pausedText);
            })
        .run();
  }
}
