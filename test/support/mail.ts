// A mail server on loopback that keeps all received messages.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { SMTPServer } from 'smtp-server';

/** A received message. */
export interface Arrived {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** A mail server. */
export interface MailServer {
  /** Value for SMTP_URL. */
  readonly url: string;
  readonly arrived: Arrived[];
  /** `refuse` rejects every recipient. `drop` accepts the message but responds with an error. */
  mode: 'accept' | 'refuse' | 'drop';
}

export const mailPassword = 'the-password-of-the-mail-server';

/** Starts a server that is stopped after the file's tests. */
export async function startMailServer(): Promise<MailServer> {
  const arrived: Arrived[] = [];
  const failure = () => Object.assign(new Error('not now'), { responseCode: 451 });
  const server = new SMTPServer({
    logger: false,
    // Otherwise, the greeting can wait longer than the client.
    disableReverseLookup: true,
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, done) =>
      username === 'crm' && password === mailPassword ? done(null, { user: 'crm' }) : done(failure()),
    onRcptTo: (_address, _session, done) => (made.mode === 'refuse' ? done(failure()) : done()),
    onData: (stream, { envelope }, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const [head = '', ...body] = Buffer.concat(chunks).toString('utf8').split('\r\n\r\n');
        arrived.push({
          from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address).join(),
          subject: /^Subject: (.*)$/m.exec(head)?.[1] ?? '',
          text: body
            .join('\n\n')
            .replace(/=\r?\n/g, '')
            .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
        });
        done(made.mode === 'drop' ? failure() : null);
      });
    },
  });
  server.on('error', () => {});
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  const made: MailServer = { url: `smtp://crm:${mailPassword}@127.0.0.1:${port}`, arrived, mode: 'accept' };
  return made;
}

/** Returns the links in a message with their codes, in order. */
export const linksIn = ({ text }: Arrived): { path: string; code: string }[] =>
  [...text.matchAll(/https?:\/\/\S+/g)].map(([link]) => {
    const { pathname, hash } = new URL(link);
    return { path: pathname, code: hash.slice(1) };
  });
