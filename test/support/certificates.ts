// Certificates for TLS tests, created by openssl on demand.
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of the created files. */
export interface Certificates {
  /** The certificate authority that signed the server and client certificates. */
  readonly authority: string;
  /** A certificate authority that signed neither certificate. */
  readonly stranger: string;
  /** Valid for `localhost`, but not for an IP address. */
  readonly server: { readonly cert: string; readonly key: string };
  /** Valid for the role `postgres`. */
  readonly client: { readonly cert: string; readonly key: string };
}

/**
 * Creates the certificates.
 * @param owner the user who runs the server and must own its key
 */
export function makeCertificates(folder: string, owner: { uid: number; gid: number }): Certificates {
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  for (const name of ['authority', 'stranger']) {
    openssl('req', '-x509', ...key, '-keyout', `${name}.key`, '-out', `${name}.crt`, '-subj', `/CN=${name}`);
  }
  const signed = (name: string, subject: string, extensions: string) => {
    openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
    writeFileSync(join(folder, `${name}.ext`), extensions);
    const by = ['-CA', 'authority.crt', '-CAkey', 'authority.key', '-CAcreateserial'];
    openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      ...by,
      '-days',
      '2',
      '-extfile',
      `${name}.ext`,
      '-out',
      `${name}.crt`,
    );
    chmodSync(join(folder, `${name}.key`), 0o600);
    return { cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) };
  };
  const server = signed('server', '/CN=server', 'subjectAltName = DNS:localhost');
  chownSync(server.key, owner.uid, owner.gid);
  return {
    authority: join(folder, 'authority.crt'),
    stranger: join(folder, 'stranger.crt'),
    server,
    client: signed('client', '/CN=postgres', 'extendedKeyUsage = clientAuth'),
  };
}
