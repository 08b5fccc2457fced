export function Start() {
  return null;
}
