/** Links to other pages of the console. */
import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, Ref } from "react";

type LinkAttributes = AnchorHTMLAttributes<HTMLAnchorElement> & { ref?: Ref<HTMLAnchorElement> };

const AnchorLink = (props: AnchorProps & Omit<LinkAttributes, keyof AnchorProps>) => <Anchor {...props} />;
const ButtonAnchor = (props: ButtonProps & Omit<LinkAttributes, keyof ButtonProps>) => (
  <Button component="a" {...props} />
);

export const PageLink = createLink(AnchorLink);
export const ButtonLink = createLink(ButtonAnchor);
