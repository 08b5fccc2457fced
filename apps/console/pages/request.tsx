export function Request() {
  return null;
}
