/**
 * The IP addresses from which a key may be used: single addresses, and networks in CIDR notation
 * (https://www.rfc-editor.org/rfc/rfc4632).
 */
import { BlockList, isIP } from "node:net";
import { isNetwork } from "#service/networks.ts";
import type { KeyRecord } from "./record.ts";

/**
 * Tests whether an address is in one of these networks. An IPv4 address in the form of IPv6 is the
 * IPv4 address.
 */
function matcherOfNetworks(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const network of networks.filter(isNetwork)) {
    const [address = "", prefix] = network.split("/");
    const family = familyOf(address);
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return (address) => isIP(address) !== 0 && list.check(address, familyOf(address));
}

const familyOf = (address: string) => (isIP(address) === 6 ? "ipv6" : "ipv4");

const matchers = new WeakMap<KeyRecord, (address: string) => boolean>();

/** Whether a key may be used from an IP address. */
export function allowsAddress(record: KeyRecord, address: string): boolean {
  if (record.addresses === undefined) return true;
  const matches = matchers.get(record) ?? matcherOfNetworks(record.addresses);
  matchers.set(record, matches);
  return matches(address);
}
