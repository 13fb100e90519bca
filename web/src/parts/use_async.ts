// SPDX-License-Identifier: Apache-2.0
/** A value that comes later, such as a decoded section. */
import { useEffect, useState } from "preact/hooks";

export type Loaded<T> = { value: T; error: null } | { value: null; error: string | null };

/** Null until the value is there. A new `key` starts again; the old value stays until the new one is there. */
export function useAsync<T>(key: string | null, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { key: string | null }>({ key: null, value: null, error: null });
  useEffect(() => {
    if (key === null) return;
    let current = true;
    load().then(
      (value) => current && setState({ key, value, error: null }),
      (error: unknown) =>
        current && setState({ key, value: null, error: String(error instanceof Error ? error.message : error) }),
    );
    return () => {
      current = false;
    };
  }, [key]);
  return key === null ? { value: null, error: null } : state;
}
