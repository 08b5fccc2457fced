/**
 * The settings of tracing: OpenTelemetry's own variables, as far as the gateway reads them itself,
 * and one of ours. The exporter reads others.
 */
import { addressSetting, integerSetting, type Setting, textSetting } from "#service/config.ts";
import { fileVariableOf, withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { type SamplerName, samplerNames } from "./sampling.ts";

const endpointForm = "http:// or https:// and an address";
const endpointPattern = /^(https?:\/\/.+)?$/;

const ratioSetting: Setting<number> = {
  variable: "OTEL_TRACES_SAMPLER_ARG",
  description: "The share of traces that are exported, for the samplers with `traceidratio`.",
  default: "1",
  bounds: "0 to 1",
  read(environment) {
    const text = environment.OTEL_TRACES_SAMPLER_ARG || this.default;
    const ratio = Number(text);
    if (!(ratio >= 0 && ratio <= 1))
      throw new StartupFault(`OTEL_TRACES_SAMPLER_ARG must be ${this.bounds}, not "${text}"`);
    return ratio;
  },
};

/** Variables that only the exporter reads, and that may hold a token. */
export const exporterSecrets = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/**
 * The headers for the collector whose variables are in files, in the form of OpenTelemetry's
 * variables. Throws StartupFault.
 */
export function headersInFiles(environment: Record<string, string | undefined>): Record<string, string> {
  const resolved = withSecrets(environment, ...exporterSecrets);
  const texts = exporterSecrets.filter((variable) => environment[fileVariableOf(variable)]);
  const pairs = texts.flatMap((variable) => (resolved[variable] ?? "").split(",")).map((pair) => pair.split("="));
  return Object.fromEntries(
    pairs.flatMap(([name = "", ...value]) => {
      const text = value.join("=").trim();
      return text === "" ? [] : [[name.trim(), decoded(text)]];
    }),
  );
}

/** Values may be percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const tracingSettings = {
  endpoint: addressSetting(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "The collector that takes traces, such as http://collector:4318; `/v1/traces` is appended. Unset: no tracing.",
    endpointForm,
    endpointPattern,
  ),
  tracesEndpoint: addressSetting(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "The whole address for traces, in place of the former.",
    endpointForm,
    endpointPattern,
  ),
  protocol: textSetting(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "http/protobuf",
    "The protocol of the collector. A collector's port for it is usually 4318.",
    "http/protobuf",
    /^http\/protobuf$/,
  ),
  disabled: textSetting("OTEL_SDK_DISABLED", "false", "Switches tracing off.", "true, false", /^(true|false)$/i),
  sampler: textSetting(
    "OTEL_TRACES_SAMPLER",
    "parentbased_always_on" satisfies SamplerName,
    "Which traces are exported. With `parentbased_…` the caller's `traceparent` decides, if there is one.",
    samplerNames.join(", "),
    new RegExp(`^(${samplerNames.join("|")})$`),
  ) as Setting<SamplerName>,
  ratio: ratioSetting,
  exportEveryMs: integerSetting(
    "OTEL_BSP_SCHEDULE_DELAY",
    1_000,
    1,
    60_000,
    "How long a span waits at most for others of its batch, in milliseconds.",
  ),
  callers: textSetting(
    "TRACE_CALLERS",
    "continue",
    "`continue`: a caller's `traceparent` is continued. `link`: each request begins a trace of its own with a link to the caller's, so that callers do not decide what is exported.",
    "continue, link",
    /^(continue|link)$/,
  ) as Setting<"continue" | "link">,
};
