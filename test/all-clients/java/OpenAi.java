import com.fasterxml.jackson.annotation.JsonClassDescription;
import com.fasterxml.jackson.annotation.JsonTypeName;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.errors.UnauthorizedException;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionMessage;
import com.openai.models.chat.completions.ChatCompletionMessageToolCall;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseOutputItem;
import com.openai.models.responses.ResponseStreamEvent;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;

/** OpenAI's Java client: chat completions and responses. */
final class OpenAi {
  @JsonTypeName("get_weather")
  @JsonClassDescription("Says the weather of a city.")
  static class GetWeather {
    public String city;
  }

  enum Color {
    red,
    green
  }

  static class Answer {
    public Color color;
  }

  static OpenAIClient clientOf(String key) {
    return OpenAIOkHttpClient.builder().apiKey(key).baseUrl(Checks.url + "/v1").maxRetries(0).build();
  }

  static final OpenAIClient client = clientOf(Checks.key);

  static ChatCompletionCreateParams.Builder chatOf(String model, String text) {
    return ChatCompletionCreateParams.builder().model(model).addUserMessage(text);
  }

  static ResponseCreateParams.Builder responseOf(String model, String text) {
    return ResponseCreateParams.builder().model(model).input(text);
  }

  static String textOf(Response response) {
    StringBuilder text = new StringBuilder();
    for (ResponseOutputItem item : response.output())
      item.message().ifPresent(message -> message.content().forEach(part -> part.outputText().ifPresent(output -> text.append(output.text()))));
    return text.toString();
  }

  static ChatCompletion streamChat(ChatCompletionCreateParams params, StringBuilder text) {
    ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
    try (StreamResponse<ChatCompletionChunk> stream = client.chat().completions().createStreaming(params)) {
      Iterator<ChatCompletionChunk> chunks = stream.stream().iterator();
      while (chunks.hasNext()) {
        ChatCompletionChunk chunk = accumulator.accumulate(chunks.next());
        for (ChatCompletionChunk.Choice choice : chunk.choices()) text.append(choice.delta().content().orElse(""));
      }
    }
    return accumulator.chatCompletion();
  }

  static Response streamResponse(ResponseCreateParams params, StringBuilder text) {
    Response last = null;
    try (StreamResponse<ResponseStreamEvent> stream = client.responses().createStreaming(params)) {
      Iterator<ResponseStreamEvent> events = stream.stream().iterator();
      while (events.hasNext()) {
        ResponseStreamEvent event = events.next();
        event.outputTextDelta().ifPresent(delta -> text.append(delta.delta()));
        if (event.isCompleted()) last = event.asCompleted().response();
        if (event.isFailed())
          throw new IllegalStateException(event.asFailed().response().error().map(error -> error.message()).orElse(""));
        if (event.isError()) throw new IllegalStateException(event.asError().message());
      }
    }
    Checks.check(last != null, "the stream ended without a response");
    return last;
  }

  interface Ask<P, A> {
    A of(P params);
  }

  static final List<Ask<ChatCompletionCreateParams, ChatCompletion>> chats =
      List.of(params -> client.chat().completions().create(params), params -> streamChat(params, new StringBuilder()));
  static final List<Ask<ResponseCreateParams, Response>> responses =
      List.of(params -> client.responses().create(params), params -> streamResponse(params, new StringBuilder()));

  static void broken(Checks.Check body, StringBuilder text) {
    Throwable error = null;
    try {
      body.run();
    } catch (Throwable caught) {
      error = caught;
    }
    Checks.failed(text.toString(), error);
  }

  static void run() throws Exception {
    new Checks()
        .add(
            "whole answer",
            () -> {
              for (String name : Checks.models) {
                ChatCompletion chat = chats.get(0).of(chatOf(name, "hello there").build());
                Checks.equal(chat.choices().get(0).message().content().orElse(""), Checks.greeting);
                Checks.check(chat.usage().orElseThrow().totalTokens() > 0, chat);
                Response response = responses.get(0).of(responseOf(name, "hello there").build());
                Checks.equal(textOf(response), Checks.greeting);
                Checks.check(response.usage().orElseThrow().totalTokens() > 0, response);
              }
            })
        .add(
            "streamed answer",
            () -> {
              for (String name : Checks.models) {
                StringBuilder text = new StringBuilder();
                ChatCompletion chat = streamChat(chatOf(name, "hello there").build(), text);
                Checks.equal(text.toString(), Checks.greeting);
                Checks.equal(chat.choices().get(0).message().content().orElse(""), Checks.greeting);
                StringBuilder more = new StringBuilder();
                Response response = streamResponse(responseOf(name, "hello there").build(), more);
                Checks.equal(more.toString(), Checks.greeting);
                Checks.equal(textOf(response), Checks.greeting);
              }
            })
        .add(
            "tool loop over chat",
            () -> {
              for (Ask<ChatCompletionCreateParams, ChatCompletion> ask : chats)
                for (String name : Checks.models) {
                  ChatCompletionCreateParams.Builder params = chatOf(name, Checks.question).addTool(GetWeather.class);
                  ChatCompletionMessage message = ask.of(params.build()).choices().get(0).message();
                  params.addMessage(message);
                  for (ChatCompletionMessageToolCall call : message.toolCalls().orElseThrow())
                    params.addMessage(
                        ChatCompletionToolMessageParam.builder()
                            .toolCallId(call.asFunction().id())
                            .content(Checks.getWeather(call.asFunction().function().arguments()))
                            .build());
                  message = ask.of(params.build()).choices().get(0).message();
                  Checks.usedTool(message.content().orElse(""));
                  params.addMessage(message).addUserMessage("hello there");
                  Checks.equal(ask.of(params.build()).choices().get(0).message().content().orElse(""), Checks.greeting);
                }
            })
        .add(
            "tool loop over responses",
            () -> {
              for (Ask<ResponseCreateParams, Response> ask : responses)
                for (String name : Checks.models) {
                  Response first = ask.of(responseOf(name, Checks.question).addTool(GetWeather.class).build());
                  List<ResponseInputItem> results = new ArrayList<>();
                  for (ResponseOutputItem item : first.output())
                    if (item.isFunctionCall())
                      results.add(
                          ResponseInputItem.ofFunctionCallOutput(
                              ResponseInputItem.FunctionCallOutput.builder()
                                  .callId(item.asFunctionCall().callId())
                                  .output(Checks.getWeather(item.asFunctionCall().arguments()))
                                  .build()));
                  ResponseCreateParams second =
                      ResponseCreateParams.builder()
                          .model(name)
                          .inputOfResponse(results)
                          .previousResponseId(first.id())
                          .addTool(GetWeather.class)
                          .build();
                  Checks.usedTool(textOf(ask.of(second)));
                }
            })
        .add(
            "structured output",
            () -> {
              for (String name : Checks.models) {
                var params = chatOf(name, "hello there").responseFormat(Answer.class).build();
                Optional<Answer> answer = client.chat().completions().create(params).choices().get(0).message().content();
                Checks.check(answer.orElseThrow().color != null, "no color");
              }
            })
        .add(
            "wrong key",
            () ->
                Checks.refused(
                    UnauthorizedException.class,
                    () -> clientOf("nothing").chat().completions().create(chatOf(Checks.model, "hello there").build())))
        .add(
            "broken stream",
            () -> {
              StringBuilder text = new StringBuilder();
              broken(() -> streamChat(chatOf(Checks.broken, "hello there").build(), text), text);
              StringBuilder more = new StringBuilder();
              broken(() -> streamResponse(responseOf(Checks.broken, "hello there").build(), more), more);
            })
        .add(
            "keep-alives",
            () -> {
              StringBuilder text = new StringBuilder();
              streamChat(chatOf(Checks.paused, "hello there").build(), text);
              Checks.equal(text.toString(), Checks.pausedText);
              StringBuilder more = new StringBuilder();
              streamResponse(responseOf(Checks.paused, "hello there").build(), more);
              Checks.equal(more.toString(), Checks.pausedText);
            })
        .run();
  }
}
