/** Links to other pages of the console. */
import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ReactNode, Ref } from "react";
import { useRead } from "../app/queries.ts";
import { useAccountName } from "./accounts.ts";

type LinkAttributes = AnchorHTMLAttributes<HTMLAnchorElement> & { ref?: Ref<HTMLAnchorElement> };

const AnchorLink = (props: AnchorProps & Omit<LinkAttributes, keyof AnchorProps>) => <Anchor {...props} />;
const ButtonAnchor = (props: ButtonProps & Omit<LinkAttributes, keyof ButtonProps>) => (
  <Button component="a" {...props} />
);

export const PageLink = createLink(AnchorLink);
export const ButtonLink = createLink(ButtonAnchor);

interface ThingLinkProps extends AnchorProps {
  /** An empty id has no page. */
  id: string;
  title?: string | undefined;
  /** By default the id. */
  children?: ReactNode;
}

interface IdLinkProps extends ThingLinkProps {
  to: "/keys/$key" | "/accounts/$account" | "/models/$model" | "/requests/$id";
}

/** The parameters of the address of each kind; a link uses the one that its address has. */
const paramsOf = (id: string) => ({ key: id, account: id, model: id, id });

const IdLink = ({ to, id, children = id, ...props }: IdLinkProps) =>
  id === "" ? (
    "–"
  ) : (
    <PageLink to={to} params={paramsOf(id)} {...props}>
      {children}
    </PageLink>
  );

/** By default with the name of the key. */
export const KeyLink = ({ id, children, ...props }: ThingLinkProps) => (
  <IdLink to="/keys/$key" id={id} title={id} {...props}>
    {children ?? <KeyName id={id} />}
  </IdLink>
);

function KeyName({ id }: { id: string }) {
  return useRead("getKey", { params: { key: id } }).data?.name ?? id;
}

/** By default with the name of the account. */
export function AccountLink({ id, children, ...props }: ThingLinkProps) {
  const nameOf = useAccountName();
  return (
    <IdLink to="/accounts/$account" id={id} title={id} {...props}>
      {children ?? nameOf(id)}
    </IdLink>
  );
}
export const ModelLink = (props: ThingLinkProps) => <IdLink to="/models/$model" {...props} />;
export const RequestLink = (props: ThingLinkProps) => <IdLink to="/requests/$id" {...props} />;
