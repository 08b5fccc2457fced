/** Icons of 16 units; the text beside them or their button's label says what they mean. */
function Icon({ path }: { path: string }) {
  return (
    <svg
      aria-hidden="true"
      width={16}
      height={16}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={path} />
    </svg>
  );
}

export const CopyIcon = () => <Icon path="M6 6h8v8H6zM3.5 10H2V2h8v1.5" />;
export const CheckIcon = () => <Icon path="M3 8.5l3.2 3.2L13 5" />;
export const CrossIcon = () => <Icon path="M4 4l8 8M12 4l-8 8" />;
export const PencilIcon = () => <Icon path="M3 13l.6-2.8L11 2.8l2.2 2.2-7.4 7.4zM9.5 4.3l2.2 2.2" />;
export const StartIcon = () => <Icon path="M2 8l6-5.5L14 8M4 7v6.5h8V7" />;
export const KeyIcon = () => <Icon path="M9.5 6.5a3 3 0 1 0-2.1 2.1L9 10h1.5v1.5H12V13h2v-2L9.5 6.5M5.3 5.3v0" />;
export const ModelIcon = () => <Icon path="M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6" />;
export const ChatIcon = () => <Icon path="M2.5 3h11v8h-6L4 14v-3H2.5z" />;
export const UsageIcon = () => <Icon path="M2.5 13.5h11M4.5 11V8M8 11V3M11.5 11V6" />;
export const ListIcon = () => <Icon path="M5.5 4H14M5.5 8H14M5.5 12H14M2.5 4v0M2.5 8v0M2.5 12v0" />;
export const BatchIcon = () => <Icon path="M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3" />;
export const GaugeIcon = () => <Icon path="M2.5 12a6 6 0 1 1 11 0M8 10l2.5-3.5" />;
export const FileIcon = () => <Icon path="M4 2h5l3 3v9H4zM9 2v3h3M6 8.5h4M6 11h4" />;
export const FilesIcon = () => <Icon path="M2 4h4.5L8 5.5h6V13H2zM2 7.5h12" />;
export const WebhookIcon = () => <Icon path="M2.5 8h4M9.5 8h4M4 5.5L1.5 8 4 10.5M12 5.5L14.5 8 12 10.5M8 4.5v7" />;
export const PeopleIcon = () => (
  <Icon path="M6 8a2.4 2.4 0 1 0 0-4.8A2.4 2.4 0 0 0 6 8M2 13c0-2.2 1.8-3.5 4-3.5s4 1.3 4 3.5M10.5 3.5a2.2 2.2 0 0 1 0 4.2M12 9.8c1.3.5 2 1.6 2 3.2" />
);
export const UpIcon = () => <Icon path="M8 12.5v-9M4 7.5l4-4 4 4" />;
export const DownIcon = () => <Icon path="M8 3.5v9M4 8.5l4 4 4-4" />;
export const GripIcon = () => <Icon path="M6 4v0M10 4v0M6 8v0M10 8v0M6 12v0M10 12v0" />;
export const MoreIcon = () => <Icon path="M3.5 8v0M8 8v0M12.5 8v0" />;
export const AuditIcon = () => <Icon path="M3 2.5h10v11H3zM5.5 5.5h5M5.5 8h5M5.5 10.5h3" />;
export const SettingsIcon = () => <Icon path="M2 4.5h6M12 4.5h2M10 6.3V2.7M2 11.5h2M8 11.5h6M6 13.3V9.7" />;
export const SunIcon = () => (
  <Icon path="M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6M8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1" />
);
