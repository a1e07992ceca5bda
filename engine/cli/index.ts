// CLI: one command line for the instance; each command honours the server's environment.
// May import every room.
import { debuglog } from 'node:util';
import { Command, Option } from '@commander-js/extra-typings';
import { simulated, stepNames } from '../../webhooks/simulate/index.ts';
import { version } from '../app.ts';
import { UserError } from '../errors.ts';
import type { Result } from './context.ts';
import { check, migrateCommand, openApi } from './model.ts';
import { keyCreate, keyList, keyRevoke, orgCreate, profileCreate } from './people.ts';
import { serve } from './serve.ts';
import {
  userCreate,
  userDisable,
  userEnable,
  userList,
  userResetPassword,
  userShow,
  userVerify,
} from './users.ts';
import { inboxList, inboxReplay, inboxShow, partners, simulate } from './webhooks.ts';

/** Shows the stack of an unexpected failure where NODE_DEBUG=crm. */
const debug = debuglog('crm');

const asJson = () => new Option('--json', 'print one JSON object and nothing else');
const ofOrg = () => new Option('--org <slug>', 'the organization').makeOptionMandatory();

/** Prints what a command did; a mistake of the caller is one message on standard error and exit code 1. */
async function run(json: true | undefined, work: Promise<Result>): Promise<void> {
  try {
    const result = await work;
    process.stdout.write(`${json ? JSON.stringify(result.json) : result.text}\n`);
  } catch (error) {
    const known = error instanceof UserError;
    const { message, stack } = error as Error;
    process.stderr.write(`crm: ${known ? message : `it failed unexpectedly: ${message.split('\n')[0]}`}\n`);
    if (!known) debug('%s', stack);
    process.exitCode = 1;
  }
}

const program = new Command('crm')
  .description('An organization-scoped CRM API whose resources are declared in YAML.')
  .version(version)
  .showHelpAfterError('(--help tells more)');

program
  .command('serve')
  .description('serve the API until a signal stops it')
  .addOption(asJson())
  .action(({ json }) => run(json, serve()));
program
  .command('migrate')
  .description('apply the migrations that the database lacks, or write one for changed definitions')
  .option('--create <name>', 'write a migration for what the definitions have changed; apply nothing')
  .option('--allow-data-loss', 'with --create: also where it drops or converts stored values')
  .addOption(asJson())
  .action(({ json, ...options }) => run(json, migrateCommand(options)));
program
  .command('check')
  .description('check the resource definitions and the configuration; needs no database')
  .addOption(asJson())
  .action(({ json }) => run(json, check()));
program
  .command('openapi')
  .description('print the OpenAPI description; needs no database')
  .addOption(asJson())
  .action(({ json }) => run(json, openApi()));

const org = program.command('org').description('organizations');
org
  .command('create <slug>')
  .description('make an organization with the profiles administrator and read-only')
  .option('--name <name>', 'its name; default: the slug')
  .addOption(asJson())
  .action((slug, { json, ...options }) => run(json, orgCreate(slug, options)));

const user = program.command('user').description('people');
user
  .command('create <email>')
  .description('make a user with a membership')
  .addOption(ofOrg())
  .requiredOption('--profile <name>', "the user's profile there")
  .option('--password-stdin', 'read the password from standard input; else one is made and printed once')
  .option('--existing', 'the user exists: give it a further membership; it keeps its password')
  .addOption(asJson())
  .action((email, { json, ...options }) => run(json, userCreate(email, options)));
user
  .command('list')
  .description('list users: whether they are verified, and what they are members of')
  .option('--org <slug>', 'only members of this organization')
  .addOption(asJson())
  .action(({ json, ...options }) => run(json, userList(options)));
user
  .command('show <user>')
  .description('show a user, by e-mail address or id')
  .addOption(asJson())
  .action((wanted, { json }) => run(json, userShow(wanted)));
user
  .command('reset-password <user>')
  .description('give a user another password and end its sessions')
  .option('--password-stdin', 'read the password from standard input; else one is made and printed once')
  .addOption(asJson())
  .action((wanted, { json, ...options }) => run(json, userResetPassword(wanted, options)));
user
  .command('disable <user>')
  .description('let nobody log in as this user, and end its sessions; keys that it made go on')
  .addOption(asJson())
  .action((wanted, { json }) => run(json, userDisable(wanted)));
user
  .command('enable <user>')
  .description('let people log in with a disabled user again')
  .addOption(asJson())
  .action((wanted, { json }) => run(json, userEnable(wanted)));
user
  .command('verify <user>')
  .description('vouch that its holder owns the address: other organizations may then add the user')
  .addOption(asJson())
  .action((wanted, { json }) => run(json, userVerify(wanted)));

const profile = program.command('profile').description('profiles: what their holders may do');
profile
  .command('create <name>')
  .description('make a profile')
  .addOption(ofOrg())
  .requiredOption('--grant <grants...>', 'object:action,action; * stands for all, as in *:list,read')
  .addOption(asJson())
  .action((name, { json, ...options }) => run(json, profileCreate(name, options)));

const key = program.command('key').description('API keys of an organization');
key
  .command('create')
  .description('make a key; it is printed once')
  .addOption(ofOrg())
  .option('--profile <name>', 'what the key may do', 'administrator')
  .option('--name <name>', 'what to call it', 'API key')
  .option('--expires <time>', 'when it ends, such as 2027-01-31; default: never')
  .addOption(asJson())
  .action(({ json, ...options }) => run(json, keyCreate(options)));
key
  .command('list')
  .description('list the keys, without their secrets')
  .addOption(ofOrg())
  .addOption(asJson())
  .action(({ json, ...options }) => run(json, keyList(options)));
key
  .command('revoke <id>')
  .description('end a key for good')
  .addOption(ofOrg())
  .addOption(asJson())
  .action((id, { json, ...options }) => run(json, keyRevoke(id, options)));

program
  .command('partners')
  .description(
    'show which partner endpoints are on, off (501) or misconfigured, and when secrets were last used',
  )
  .addOption(asJson())
  .action(({ json }) => run(json, partners()));

const inbox = program.command('inbox').description('what channels have delivered');
inbox
  .command('list')
  .description('list deliveries, newest first')
  .addOption(ofOrg())
  .option('--status <state>', 'only those that are waiting, done or dead (given up)')
  .option('--limit <n>', 'how many', '50')
  .addOption(asJson())
  .action(({ json, ...options }) => run(json, inboxList(options)));
inbox
  .command('show <id>')
  .description('show a delivery with what it holds')
  .addOption(ofOrg())
  .addOption(asJson())
  .action((id, { json, ...options }) => run(json, inboxShow(id, options)));
inbox
  .command('replay <id>')
  .description('have a delivery processed again, whatever became of it')
  .addOption(ofOrg())
  .addOption(asJson())
  .action((id, { json, ...options }) => run(json, inboxReplay(id, options)));

program
  .command('simulate <provider>')
  .description(`play a provider: ${simulated.join(', ')}, or <customer>-payment; what it sends is stored`)
  .addOption(ofOrg())
  .option('--url <origin>', 'a running instance; default: this one, running just for this')
  .option('--endpoint <id>', "which integration, by its address's last part")
  .option('--secret-stdin', 'read the secret from standard input; default: the stored one')
  .option('--steps <names>', `some of ${stepNames.join(',')}; default: all`)
  .option('--burst <n>', 'how many deliveries the burst has', '1000')
  .addOption(asJson())
  .action((provider, { json, ...options }) => run(json, simulate(provider, options)));

await program.parseAsync();
