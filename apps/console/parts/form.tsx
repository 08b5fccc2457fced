/** A form: its errors stand at their fields, in the reader's language, and nothing that was typed is lost. */
import {
  cloneElement,
  createContext,
  type FormEvent,
  type ReactElement,
  type ReactNode,
  useContext,
  useEffect,
  useRef,
  useState,
} from "react";
import { ApiFault } from "../app/call.ts";
import { useTexts } from "../app/language.tsx";
import { faultTexts, faultWordsOf, inputFaultOf } from "./fault-texts.ts";
import { FaultNotice } from "./states.tsx";

interface FormState {
  /** What is wrong, by the name of the field. */
  readonly faults: ReadonlyMap<string, string>;
  readonly names: Set<string>;
}

const FormContext = createContext<FormState>({ faults: new Map(), names: new Set() });

export interface FormProps {
  /** Called when no field is wrong. Rejects with the error to show. */
  onSubmit(): Promise<unknown>;
  /** A field is wrong: it may have to be brought into sight. */
  onFault?(name: string): void;
  children(state: { isBusy: boolean; notice: ReactNode }): ReactNode;
}

/** An error that concerns none of its fields is the notice. */
export function Form({ onSubmit, onFault, children }: FormProps) {
  const t = useTexts(faultTexts);
  const form = useRef<HTMLFormElement>(null);
  const names = useRef(new Set<string>()).current;
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [faults, setFaults] = useState<FormState["faults"]>(new Map());
  const show = (wrong: FormState["faults"]) => {
    setFaults(wrong);
    const [name] = wrong.keys();
    if (name === undefined) return;
    onFault?.(name);
    // What hides the field opens first.
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
  };

  const wrongInputs = (): Map<string, string> => {
    const wrong = new Map<string, string>();
    for (const input of form.current?.elements ?? [])
      if (input instanceof HTMLInputElement && names.has(input.name) && input.type !== "hidden") {
        const fault = inputFaultOf(input, t);
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
      const name = fault instanceof ApiFault ? nameFor(fault.field, names) : undefined;
      if (name === undefined) setError(fault);
      else show(new Map([[name, faultWordsOf((fault as ApiFault).message, t)]]));
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
  return (
    <form ref={form} noValidate onSubmit={submit}>
      <FormContext value={{ faults, names }}>
        {children({ isBusy, notice: error === undefined ? null : <FaultNotice error={error} /> })}
      </FormContext>
    </form>
  );
}

/** The field that shows a fault of `limits.budgetPerDay` or of `models.0`. */
function nameFor(field: string | undefined, names: ReadonlySet<string>): string | undefined {
  for (let name = field; name; name = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "")
    if (names.has(name)) return name;
  return undefined;
}

interface InputProps {
  name?: string;
  error?: ReactNode;
}

/** An input of a form, by the name that the API has for it. */
export function Field({ name, children }: { name: string; children: ReactElement<InputProps> }) {
  const { faults, names } = useContext(FormContext);
  useEffect(() => {
    names.add(name);
    return () => void names.delete(name);
  }, [name, names]);
  return cloneElement(children, { name, error: faults.get(name) });
}
