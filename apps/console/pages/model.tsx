export function Model() {
  return null;
}
