/**
 * A form: its errors stand at their fields, in the reader's language, and nothing that was typed is
 * lost.
 */
import {
  cloneElement,
  createContext,
  type FormEvent,
  type ReactElement,
  type ReactNode,
  useContext,
  useRef,
  useState,
} from "react";
import { ApiFault } from "../app/call.ts";
import { useTexts } from "../app/language.tsx";
import { faultTexts, faultWordsOf, inputFaultOf } from "./fault-texts.ts";
import { FaultNotice } from "./states.tsx";

interface InputProps {
  name?: string;
  error?: ReactNode;
  /** Of a number. */
  min?: number | string;
  max?: number | string;
  value?: unknown;
}

interface FormState {
  /** What is wrong, by the name of the field. */
  readonly faults: ReadonlyMap<string, string>;
  /** The inputs as they were last drawn, by the name of the field. */
  readonly inputs: Map<string, InputProps>;
}

const FormContext = createContext<FormState>({ faults: new Map(), inputs: new Map() });
/** How often a field that is brought into sight is looked for. */
const focusFramesMax = 30;

export interface FormProps {
  /** Called when no field is wrong. Rejects with the error to show. */
  onSubmit(): Promise<unknown>;
  /** A field is wrong: it may have to be brought into sight. */
  onFault?(name: string): void;
  /**
   * What is wrong with the value of a field that the API refuses; by default the words for the
   * API's message.
   */
  faultTextOf?(name: string): string | undefined;
  children(state: { isBusy: boolean; notice: ReactNode }): ReactNode;
}

/** An error that concerns none of its fields is the notice. */
export function Form({ onSubmit, onFault, faultTextOf, children }: FormProps) {
  const t = useTexts(faultTexts);
  const form = useRef<HTMLFormElement>(null);
  const inputs = useRef(new Map<string, InputProps>()).current;
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [faults, setFaults] = useState<FormState["faults"]>(new Map());
  const show = (wrong: FormState["faults"]) => {
    setFaults(wrong);
    const [name] = wrong.keys();
    if (name === undefined) return;
    onFault?.(name);
    // What hides the field opens first.
    const focus = (frames: number) => {
      const input = form.current?.querySelector<HTMLElement>("[aria-invalid=true]");
      input?.focus();
      if (document.activeElement !== input && frames > 0) requestAnimationFrame(() => focus(frames - 1));
    };
    requestAnimationFrame(() => focus(focusFramesMax));
  };

  const wrongInputs = (): Map<string, string> => {
    const wrong = new Map<string, string>();
    for (const input of form.current?.elements ?? [])
      if (input instanceof HTMLInputElement && inputs.has(input.name) && input.type !== "hidden") {
        const fault = inputFaultOf(input, inputs.get(input.name) ?? {}, t);
        if (fault !== undefined) wrong.set(input.name, fault);
      }
    return wrong;
  };
  const send = async () => {
    const wrong = wrongInputs();
    show(wrong);
    setError(undefined);
    if (wrong.size > 0) return;
    setIsBusy(true);
    try {
      await onSubmit();
    } catch (fault) {
      const name = fault instanceof ApiFault ? nameFor(fault.field, inputs) : undefined;
      // A field that is not drawn any more cannot show it.
      if (name === undefined || form.current?.elements.namedItem(name) === null) setError(fault);
      else show(new Map([[name, faultTextOf?.(name) ?? faultWordsOf((fault as ApiFault).message, t)]]));
    } finally {
      setIsBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A form in a dialog is inside another one for React.
    event.stopPropagation();
    if (!isBusy) void send();
  };
  /** What is being corrected is not wrong any more, as far as anybody knows. */
  const changed = ({ target }: FormEvent) => {
    const { name } = target as HTMLInputElement;
    if (faults.has(name)) setFaults(new Map([...faults].filter(([wrong]) => wrong !== name)));
  };
  return (
    <form ref={form} noValidate onSubmit={submit} onChange={changed}>
      <FormContext value={{ faults, inputs }}>
        {children({ isBusy, notice: error === undefined ? null : <FaultNotice error={error} /> })}
      </FormContext>
    </form>
  );
}

/** The field that shows a fault of `limits.budgetPerDay` or of `models.0`. */
function nameFor(field: string | undefined, inputs: ReadonlyMap<string, unknown>): string | undefined {
  for (let name = field; name; name = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "")
    if (inputs.has(name)) return name;
  return undefined;
}

/** An input of a form, by the name that the API has for it. */
export function Field({ name, children }: { name: string; children: ReactElement<InputProps> }) {
  const { faults, inputs } = useContext(FormContext);
  // An effect would not run inside a section that is closed.
  inputs.set(name, children.props);
  return cloneElement(children, { name, error: faults.get(name) });
}
