import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.AuthenticationException;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.model.anthropic.AnthropicChatModel;
import dev.langchain4j.model.anthropic.AnthropicStreamingChatModel;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.googleai.GoogleAiGeminiChatModel;
import dev.langchain4j.model.googleai.GoogleAiGeminiStreamingChatModel;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** LangChain4j's chat models for OpenAI, Anthropic and Gemini, whole and streamed. */
final class LangChain {
  static String kind;

  static ChatModel modelOf(String name, String key) {
    return switch (kind) {
      case "langchain4j-open-ai" ->
          OpenAiChatModel.builder().baseUrl(Checks.url + "/v1").apiKey(key).modelName(name).maxRetries(0).build();
      case "langchain4j-anthropic" ->
          AnthropicChatModel.builder().baseUrl(Checks.url + "/v1").apiKey(key).modelName(name).maxTokens(2000).maxRetries(0).build();
      default ->
          GoogleAiGeminiChatModel.builder()
              .baseUrl(Checks.url + "/v1beta")
              .apiKey(key)
              .modelName(name)
              .sendThinking(true)
              .returnThinking(true)
              .maxRetries(0)
              .build();
    };
  }

  static StreamingChatModel streamingModelOf(String name) {
    return switch (kind) {
      case "langchain4j-open-ai" ->
          OpenAiStreamingChatModel.builder().baseUrl(Checks.url + "/v1").apiKey(Checks.key).modelName(name).build();
      case "langchain4j-anthropic" ->
          AnthropicStreamingChatModel.builder().baseUrl(Checks.url + "/v1").apiKey(Checks.key).modelName(name).maxTokens(2000).build();
      default ->
          GoogleAiGeminiStreamingChatModel.builder()
              .baseUrl(Checks.url + "/v1beta")
              .apiKey(Checks.key)
              .modelName(name)
              .sendThinking(true)
              .returnThinking(true)
              .build();
    };
  }

  interface Ask {
    ChatResponse of(String model, ChatRequest request) throws Exception;
  }

  static ChatResponse streamed(String model, ChatRequest request, StringBuilder text) throws Exception {
    CompletableFuture<ChatResponse> answer = new CompletableFuture<>();
    streamingModelOf(model)
        .chat(
            request,
            new StreamingChatResponseHandler() {
              @Override
              public void onPartialResponse(String part) {
                text.append(part);
              }

              @Override
              public void onCompleteResponse(ChatResponse response) {
                answer.complete(response);
              }

              @Override
              public void onError(Throwable error) {
                answer.completeExceptionally(error);
              }
            });
    return answer.get(20, TimeUnit.SECONDS);
  }

  static final List<Ask> ways =
      List.of(
          (model, request) -> modelOf(model, Checks.key).chat(request),
          (model, request) -> streamed(model, request, new StringBuilder()));

  static final ToolSpecification weather =
      ToolSpecification.builder()
          .name("get_weather")
          .description("Says the weather of a city.")
          .parameters(JsonObjectSchema.builder().addStringProperty("city").required("city").build())
          .build();
  static final ChatRequest hello = ChatRequest.builder().messages(UserMessage.from("hello there")).build();

  static void answers(Ask ask) throws Exception {
    for (String name : Checks.models) {
      ChatResponse response = ask.of(name, hello);
      Checks.equal(response.aiMessage().text(), Checks.greeting);
      Checks.check(response.tokenUsage().totalTokenCount() > 0, response);
    }
  }

  static void loop(Ask ask) throws Exception {
    for (String name : Checks.models) {
      List<ChatMessage> messages = new ArrayList<>(List.of(UserMessage.from(Checks.question)));
      AiMessage message = ask.of(name, requestOf(messages)).aiMessage();
      messages.add(message);
      for (ToolExecutionRequest call : message.toolExecutionRequests())
        messages.add(ToolExecutionResultMessage.from(call, Checks.getWeather(call.arguments())));
      message = ask.of(name, requestOf(messages)).aiMessage();
      Checks.usedTool(message.text());
      messages.add(message);
      messages.add(UserMessage.from("hello there"));
      Checks.equal(ask.of(name, requestOf(messages)).aiMessage().text(), Checks.greeting);
    }
  }

  static ChatRequest requestOf(List<ChatMessage> messages) {
    return ChatRequest.builder().messages(messages).toolSpecifications(weather).build();
  }

  static void run(String artifact) throws Exception {
    kind = artifact;
    Checks checks =
        new Checks()
            .add("whole answer", () -> answers(ways.get(0)))
            .add("streamed answer", () -> answers(ways.get(1)))
            .add("tool loop", () -> loop(ways.get(0)))
            .add("streamed tool loop", () -> loop(ways.get(1)));
    ResponseFormat format =
        ResponseFormat.builder()
            .type(ResponseFormatType.JSON)
            .jsonSchema(
                JsonSchema.builder()
                    .name("answer")
                    .rootElement(
                        JsonObjectSchema.builder().addEnumProperty("color", List.of("red", "green")).required("color").build())
                    .build())
            .build();
    checks
        .add(
            "structured output",
            () -> {
              ChatRequest request =
                  ChatRequest.builder().messages(UserMessage.from("hello there")).responseFormat(format).build();
              for (Ask ask : ways)
                for (String name : Checks.models) Checks.isAnswer(ask.of(name, request).aiMessage().text());
            })
        .add(
            "wrong key",
            () ->
                // Google refuses a wrong key with 400.
                Checks.refused(
                    artifact.equals("langchain4j-google-ai-gemini")
                        ? InvalidRequestException.class
                        : AuthenticationException.class,
                    () -> modelOf(Checks.model, "nothing").chat(hello)))
        .add(
            "broken stream",
            () -> {
              StringBuilder text = new StringBuilder();
              Checks.Check call = () -> streamed(Checks.broken, hello, text);
              // The other two read no errors in a stream, but they must not take the answer for a whole one.
              if (artifact.equals("langchain4j-anthropic")) OpenAi.broken(call, text);
              else Checks.refused(java.io.IOException.class, call);
            })
        .add(
            "keep-alives",
            () -> {
              StringBuilder text = new StringBuilder();
              Checks.equal(streamed(Checks.paused, hello, text).aiMessage().text(), Checks.pausedText);
              Checks.equal(text.toString(), Checks.pausedText);
            })
        .run();
  }
}
