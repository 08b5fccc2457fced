export function Accounts() {
  return null;
}
