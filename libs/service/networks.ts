/** IP addresses, and networks in CIDR notation: https://www.rfc-editor.org/rfc/rfc4632 */
import { BlockList, isIP } from "node:net";

/** Whether a text is an IP address, or a network such as 10.0.0.0/8. */
export function isNetwork(text: string): boolean {
  const [address = "", prefix, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0 || address.includes("%")) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128));
}

/** Link-local networks and others where clouds serve metadata and credentials to machines. */
const metadata = new BlockList();
metadata.addSubnet("169.254.0.0", 16);
metadata.addAddress("168.63.129.16");
metadata.addAddress("100.100.100.200");
metadata.addSubnet("fe80::", 10, "ipv6");
metadata.addSubnet("fd00:ec2::", 32, "ipv6");
metadata.addSubnet("fd20:ce::", 32, "ipv6");

/** Whether an address is one of a cloud's metadata servers, or link-local as theirs. */
export function isMetadataAddress(address: string): boolean {
  const version = isIP(address);
  return version !== 0 && metadata.check(address, version === 6 ? "ipv6" : "ipv4");
}

/** The same for the host of a URL, whose IPv6 addresses have brackets. */
export const hasMetadataHost = (url: string): boolean =>
  isMetadataAddress(new URL(url).hostname.replace(/^\[|\]$/g, ""));
