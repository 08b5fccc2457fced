/** Work that a person starts by a button, with its result or its fault. */
import { useState } from "react";

export function useAction<Result, Values extends unknown[]>(work: (...values: Values) => Promise<Result>) {
  const [isBusy, setIsBusy] = useState(false);
  const [result, setResult] = useState<Result>();
  const [fault, setFault] = useState<unknown>();
  const start = async (...values: Values) => {
    setIsBusy(true);
    setFault(undefined);
    try {
      setResult(await work(...values));
    } catch (error) {
      setFault(error);
    } finally {
      setIsBusy(false);
    }
  };
  return {
    isBusy,
    result,
    fault,
    run: (...values: Values) => void start(...values),
    clear: () => setResult(undefined),
  };
}
