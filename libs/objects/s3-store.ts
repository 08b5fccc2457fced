/**
 * Objects in a bucket of S3 or of a server that speaks its protocol:
 * https://docs.aws.amazon.com/AmazonS3/latest/API. Imported only where a bucket is configured,
 * because the client is large.
 */
import { Readable } from "node:stream";
import { DeleteObjectCommand, GetObjectCommand, NoSuchKey, S3Client, type S3ClientConfig } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { partBytes, s3ConnectMs, s3SilenceMs } from "./bounds.ts";
import { checkedName, type ObjectStore } from "./object-store.ts";

export interface S3Options {
  bucket: string;
  /** Before the name of each object, such as `sluice/`. */
  prefix: string;
  region: string;
  /** Undefined for Amazon's own. */
  endpoint: string | undefined;
  /** Undefined for the chain of Amazon's SDK: its variables, files and roles. */
  credentials: { accessKeyId: string; secretAccessKey: string } | undefined;
}

export function openS3Store({ bucket, prefix, region, endpoint, credentials }: S3Options): ObjectStore {
  const config: S3ClientConfig = {
    region,
    requestHandler: { connectionTimeout: s3ConnectMs, requestTimeout: s3SilenceMs, throwOnRequestTimeout: true },
    // Older servers know no checksums in trailers. Each object has its own against any change.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    ...(credentials !== undefined && { credentials }),
  };
  const client = new S3Client(config);
  const objectOf = (name: string) => ({ Bucket: bucket, Key: prefix + checkedName(name) });
  return {
    async put(name, source) {
      // A small object is one request; of a larger one, one part at a time is in memory.
      const params = { ...objectOf(name), Body: Readable.from(source, { objectMode: false }) };
      await new Upload({ client, params, partSize: partBytes, queueSize: 1 }).done();
    },
    async get(name, start = 0) {
      try {
        const range = start > 0 && { Range: `bytes=${start}-` };
        const { Body } = await client.send(new GetObjectCommand({ ...objectOf(name), ...range }));
        return Body as Readable;
      } catch (error) {
        if (error instanceof NoSuchKey) return undefined;
        throw error;
      }
    },
    async remove(name) {
      await client.send(new DeleteObjectCommand(objectOf(name)));
    },
  };
}
