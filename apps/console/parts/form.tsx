/**
 * A form: its errors stand at their fields, in the reader's language, and nothing that was typed is
 * lost.
 */
import {
  Checkbox,
  type CheckboxGroupProps,
  NumberInput,
  PasswordInput,
  type PasswordInputProps,
  Select,
  Switch,
  TagsInput,
  TextInput,
  type TextInputProps,
} from "@mantine/core";
import { type UseFormReturnType, useForm } from "@mantine/form";
import {
  type ComponentProps,
  type ComponentType,
  createContext,
  type FormEvent,
  type ReactNode,
  useContext,
  useId,
  useRef,
  useState,
} from "react";
import { ApiFault } from "../app/call.ts";
import { queryClient } from "../app/queries.ts";
import { useTexts } from "../app/texts.ts";
import { useFaultTexts } from "./faults.texts.ts";
import { faultWordsOf, type InputBounds, inputFaultOf } from "./faults.ts";
import { FaultNotice } from "./page.tsx";

interface FieldState {
  form: UseFormReturnType<Record<string, unknown>>;
  /** The inputs as they were last drawn, by the name of the field. */
  inputs: Map<string, InputBounds>;
}

const FieldContext = createContext<FieldState | undefined>(undefined);
/** How often a field that is brought into sight is looked for. */
const focusFramesMax = 30;

interface FormState<Values> {
  form: UseFormReturnType<Values>;
  values: Values;
  isBusy: boolean;
  /** An error that concerns none of the fields. */
  notice: ReactNode;
}

export interface FormProps<Values extends object> {
  /** The values of the fields at first. */
  initialValues: Values;
  /** Called when no field is wrong. Rejects with the error to show. */
  onSubmit(values: Values, form: UseFormReturnType<Values>): Promise<unknown>;
  /** The name of the only operation that is read again after a change; by default all are. */
  changes?: string;
  /** Called when the change is made and read again. */
  onDone?(): void;
  /** A field is wrong: it may have to be brought into sight. */
  onFault?(name: string): void;
  /** The words for a value that the API refuses; by default those for the API's message. */
  faultTextOf?(name: string): string | undefined;
  children(state: FormState<Values>): ReactNode;
}

export function Form<Values extends object>({
  initialValues,
  onSubmit,
  changes,
  onDone,
  onFault,
  faultTextOf,
  children,
}: FormProps<Values>) {
  const t = useFaultTexts();
  const element = useRef<HTMLFormElement>(null);
  const inputs = useRef<FieldState["inputs"]>(new Map()).current;
  const form = useForm<Values>({ initialValues });
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const show = (faults: Record<string, string>) => {
    form.setErrors(faults);
    const [name] = Object.keys(faults);
    if (name === undefined) return;
    onFault?.(name);
    // A closed section opens before its field can have the focus.
    const focus = (frames: number) => {
      const input = element.current?.querySelector<HTMLElement>("[aria-invalid=true]");
      input?.focus();
      if (document.activeElement !== input && frames > 0) requestAnimationFrame(() => focus(frames - 1));
    };
    requestAnimationFrame(() => focus(focusFramesMax));
  };
  const inputFaults = () =>
    Object.fromEntries(
      [...(element.current?.elements ?? [])].flatMap((input) => {
        if (!(input instanceof HTMLInputElement) || !inputs.has(input.name) || input.type === "hidden") return [];
        const fault = inputFaultOf(input, inputs.get(input.name) ?? {}, t);
        return fault === undefined ? [] : [[input.name, fault]];
      }),
    ) as Record<string, string>;
  const send = async () => {
    const faults = inputFaults();
    show(faults);
    setError(undefined);
    if (Object.keys(faults).length > 0) return;
    setIsBusy(true);
    try {
      await onSubmit(form.getValues(), form);
      await queryClient.invalidateQueries(changes === undefined ? {} : { queryKey: [changes] });
      onDone?.();
    } catch (fault) {
      const name = fault instanceof ApiFault ? fieldFor(fault.field, inputs) : undefined;
      // A field that is not drawn any more cannot show it.
      if (name === undefined || element.current?.elements.namedItem(name) === null) setError(fault);
      else show({ [name]: faultTextOf?.(name) ?? faultWordsOf((fault as ApiFault).message, t) });
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
  const notice = error === undefined ? null : <FaultNotice error={error} />;
  return (
    <form ref={element} noValidate onSubmit={submit}>
      <FieldContext value={{ form: form as FieldState["form"], inputs }}>
        {children({ form, values: form.values, isBusy, notice })}
      </FieldContext>
    </form>
  );
}

/** The field that shows a fault of `limits.budgetPerDay` or of `models.0`. */
function fieldFor(field: string | undefined, inputs: ReadonlyMap<string, unknown>): string | undefined {
  for (let name = field; name; name = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "")
    if (inputs.has(name)) return name;
  return undefined;
}

/** The properties of an input of a form, by the name that the API has for it. */
export function useField(name: string, props: object, type: "input" | "checkbox" = "input") {
  const { form, inputs } = useContext(FieldContext) as FieldState;
  const input = { ...form.getInputProps(name, { type }), name, ...props };
  // An effect would not run inside a section that is closed.
  inputs.set(name, input);
  return input;
}

const fieldOf = <Props extends object>(Input: ComponentType<Props>, type?: "checkbox") =>
  function Field({ name, ...props }: Partial<Props> & { name: string }) {
    return <Input {...(useField(name, props, type) as Props)} />;
  };

export const TextField = fieldOf<TextInputProps>(TextInput);
export const NumberField = fieldOf<ComponentProps<typeof NumberInput>>(NumberInput);
export const SelectField = fieldOf<ComponentProps<typeof Select>>(Select);
export const TagsField = fieldOf<ComponentProps<typeof TagsInput>>(TagsInput);
export const CheckboxGroupField = fieldOf<CheckboxGroupProps>(Checkbox.Group);
export const CheckboxField = fieldOf<ComponentProps<typeof Checkbox>>(Checkbox, "checkbox");
export const SwitchField = fieldOf<ComponentProps<typeof Switch>>(Switch, "checkbox");

/**
 * Mantine's password input, with what it leaves out: its error and its description for screen
 * readers, and its button's name in the reader's language.
 */
function PasswordBox(props: PasswordInputProps) {
  const t = useTexts();
  const id = useId();
  const { description, error } = props;
  const described = [...(description ? [`${id}-description`] : []), ...(error ? [`${id}-error`] : [])].join(" ");
  return (
    <PasswordInput
      id={id}
      visibilityToggleButtonProps={{ "aria-label": t.showPassword }}
      {...(error ? { "aria-invalid": true } : {})}
      {...(described !== "" && { "aria-describedby": described })}
      {...props}
    />
  );
}
export const PasswordField = fieldOf<PasswordInputProps>(PasswordBox);

/** Fields of several forms, with the bounds that the API has for them. */
export function NameField(props: TextInputProps) {
  return <TextField label={useTexts().name} required maxLength={100} {...props} name="name" />;
}
export function EmailField(props: TextInputProps) {
  return <TextField label={useTexts().email} type="email" {...props} name="email" />;
}
export function NewPasswordField({ name = "password", ...props }: PasswordInputProps) {
  return (
    <PasswordField
      label={useTexts().newPassword}
      autoComplete="new-password"
      required
      minLength={12}
      maxLength={128}
      name={name}
      {...props}
    />
  );
}
