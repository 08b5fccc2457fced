export function NewPassword() {
  return null;
}
