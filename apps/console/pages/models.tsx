export function Models() {
  return null;
}
