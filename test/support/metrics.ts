/** All metrics of a role, as Prometheus reads them. */
export const metricsOf = async (role: { urls: Record<string, string> } | undefined): Promise<string> =>
  (await fetch(`${role?.urls.operations}/metrics`)).text();
