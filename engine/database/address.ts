// Parses libpq connection URIs into hosts, credentials and encryption options, with libpq's semantics.
// May import errors.
import { readFileSync } from 'node:fs';
import {
  type ConnectionOptions,
  checkServerIdentity,
  createSecureContext,
  getCACertificates,
  type SecureContext,
} from 'node:tls';
import leven from 'leven';
import { fileReason, UserError } from '../errors.ts';

/** A server in a connection URI. */
export interface Host {
  /** Host name, IP address, or folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
  /** TLS options in order of preference; false means an unencrypted connection. */
  readonly encryption: readonly (ConnectionOptions | false)[];
}

/** Supported values of target_session_attrs. */
export type SessionTarget = 'any' | 'read-write' | 'primary';

/** A parsed connection URI. Properties for absent parameters are undefined. */
export interface Address {
  readonly hosts: readonly Host[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  readonly applicationName: string | undefined;
  /** Session parameters as command-line options, for example `-c search_path=crm`. */
  readonly options: string | undefined;
  readonly connectTimeoutMs: number | undefined;
  readonly target: SessionTarget;
}

const uri =
  /^postgres(?:ql)?:\/\/(?:(?<login>[^/?]*)@)?(?<hosts>[^/?]*)(?:\/(?<database>[^?]*))?(?:\?(?<query>.*))?$/s;
const hostAndPort = /^(?:\[(?<ipv6>[^\]]*)\]|(?<name>[^:]*))(?::(?<port>.*))?$/s;
const parameters = [
  'application_name',
  'connect_timeout',
  'dbname',
  'host',
  'options',
  'password',
  'port',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslpassword',
  'sslrootcert',
  'target_session_attrs',
  'user',
] as const;
type Parameters = Partial<Record<(typeof parameters)[number], string>>;
const targets: readonly SessionTarget[] = ['any', 'read-write', 'primary'];

/** Returns whether a string is a PostgreSQL connection URI. */
export const isAddress = (text: string): boolean => /^postgres(ql)?:\/\/./.test(text);

/**
 * Parses a connection URI as libpq does, including multiple hosts, and reads the certificates it references.
 * @throws UserError with a one-line message if any part of the URI is not supported. No part is ignored.
 */
export function parseAddress(text: string): Address {
  const parts = uri.exec(text)?.groups;
  if (parts === undefined) throw new UserError('it is not a PostgreSQL URL');
  const parameters = query(parts.query ?? '');
  const [user, password] = login(parts.login);
  const hosts = hostList(parts.hosts ?? '', parameters);
  const target = (parameters.target_session_attrs ?? 'any') as SessionTarget;
  if (!targets.includes(target)) {
    throw new UserError(
      `target_session_attrs must be one of ${targets.join(', ')}, because the service must be able to write`,
    );
  }
  const seconds = parameters.connect_timeout;
  if (seconds !== undefined && !/^\d{1,6}$/.test(seconds)) {
    throw new UserError('connect_timeout must be a number of seconds');
  }
  const encryption = tls(parameters);
  return {
    hosts: hosts.map(({ host, port }) => ({
      host,
      port,
      // As in libpq, sslmode is ignored for Unix sockets.
      encryption: host.startsWith('/') ? [false] : encryption(host),
    })),
    user: parameters.user ?? user,
    password: parameters.password ?? password,
    database: parameters.dbname ?? (decode(parts.database ?? '') || undefined),
    applicationName: parameters.application_name,
    options: parameters.options,
    connectTimeoutMs: seconds === undefined || +seconds === 0 ? undefined : +seconds * 1000,
    target,
  };
}

/** Formats a connection URI's hosts and database, without credentials. */
export const describeAddress = ({ hosts, database }: Address): string =>
  `${hosts.map(describeHost).join(',')}/${database ?? ''}`;

/** Formats a host and port as they appear in a URI. */
export const describeHost = ({ host, port }: Pick<Host, 'host' | 'port'>): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new UserError(
      '"%" must be followed by two hexadecimal digits of a UTF-8 byte; write a literal "%" as %25',
    );
  }
}

function login(text: string | undefined): readonly (string | undefined)[] {
  const [user = '', ...password] = (text ?? '').split(':');
  return [user, password.join(':')].map((part) => decode(part) || undefined);
}

function query(text: string): Parameters {
  const result: Parameters = {};
  for (const pair of text.split('&').filter((part) => part !== '')) {
    const [name = '', value = ''] = pair.split(/=(.*)/s).map(decode);
    const key = parameters.find((parameter) => parameter === name);
    if (key === undefined) {
      const similar = parameters.find((parameter) => leven(parameter, name) < 3);
      // Other names are not shown, because they might be part of the password.
      const quotedName = /^[a-z_]{1,60}$/i.test(name) ? ` "${name}"` : '';
      throw new UserError(
        `unknown parameter${quotedName}${similar === undefined ? '' : `. Did you mean "${similar}"?`}`,
      );
    }
    if (key in result) throw new UserError(`"${key}" is set twice`);
    if (value !== '') result[key] = value;
  }
  return result;
}

/**
 * Splits a host list such as `h1:5432,[::1]:5433`. The `host` parameter contains only names; a single `port`
 * applies to all hosts.
 */
function hostList(authority: string, parameters: Parameters): readonly { host: string; port: number }[] {
  const hosts = (parameters.host ?? authority).split(',');
  const ports = parameters.port?.split(',') ?? [];
  if (ports.length > 1 && ports.length !== hosts.length) {
    throw new UserError(`${ports.length} ports are set for ${hosts.length} hosts`);
  }
  return hosts.map((text, index) => {
    const {
      ipv6,
      name = '',
      port,
    } = (parameters.host === undefined ? hostAndPort.exec(text)?.groups : undefined) ??
    ({ name: text } as Names);
    const digits = port || ports[index] || ports[0] || '5432';
    if (!/^\d{1,5}$/.test(digits) || +digits < 1 || +digits > 65535) {
      // The text is not shown, because it might be part of the password.
      throw new UserError(
        'a port must be a number from 1 to 65535; "/", "?", "#", "@" and ":" in a password must be written as %2F, %3F, %23, %40 and %3A',
      );
    }
    const host = ipv6 ?? (parameters.host === undefined ? decode(name) : name);
    return { host: host || 'localhost', port: +digits };
  });
}

type Names = Readonly<Partial<Record<'ipv6' | 'name' | 'port', string>>>;

const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

/**
 * Returns the encryption options for a host, in the order that libpq uses for the sslmode. If a root
 * certificate is configured, every mode verifies the certificate chain, but only verify-full verifies the
 * host name.
 */
function tls(parameters: Parameters): (host: string) => Host['encryption'] {
  const { sslrootcert: root, sslcert, sslkey } = parameters;
  const mode = parameters.sslmode ?? (root === 'system' ? 'verify-full' : 'prefer');
  if (!modes.includes(mode)) throw new UserError(`sslmode must be one of ${modes.join(', ')}`);
  if (root === 'system' && mode !== 'verify-full') {
    throw new UserError('sslrootcert=system requires sslmode=verify-full');
  }
  if (mode.startsWith('verify-') && root === undefined) {
    throw new UserError(`sslmode=${mode} requires sslrootcert: a certificate file or "system"`);
  }
  if ((sslcert === undefined) !== (sslkey === undefined)) {
    throw new UserError('sslcert and sslkey must be used together');
  }
  if (mode === 'disable') return () => [false];
  const secureContext = context(parameters);
  return (host) => {
    const encrypted: ConnectionOptions = {
      secureContext,
      rejectUnauthorized: root !== undefined,
      checkServerIdentity: (_name, certificate) =>
        mode === 'verify-full' ? checkServerIdentity(host, certificate) : undefined,
    };
    if (mode === 'allow') return [false, encrypted];
    return mode === 'prefer' ? [encrypted, false] : [encrypted];
  };
}

function context({ sslrootcert, sslcert, sslkey, sslpassword }: Parameters): SecureContext {
  const options = {
    ca: sslrootcert === 'system' ? getCACertificates('system') : read('sslrootcert', sslrootcert),
    cert: read('sslcert', sslcert),
    key: read('sslkey', sslkey),
    passphrase: sslpassword,
  };
  try {
    return createSecureContext(options);
  } catch (cause) {
    throw new UserError(`the certificates cannot be used: ${(cause as Error).message}`, { cause });
  }
}

function read(parameter: string, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new UserError(`${parameter} "${file}" cannot be read: ${fileReason(cause)}`, { cause });
  }
  if (!text.includes('-----BEGIN ')) throw new UserError(`${parameter} "${file}" is not a PEM file`);
  return text;
}
