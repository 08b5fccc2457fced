export function Me() {
  return null;
}
