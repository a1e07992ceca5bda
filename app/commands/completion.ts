import { Argument, type Command, type CommandUnknownOpts } from '@commander-js/extra-typings';

/** Functions that generate the completion script, keyed by shell. */
const shells = { bash, zsh, fish } as const;

/**
 * Adds the `completion` command. The script contains all commands, so that completion does not start a
 * process.
 */
export function completionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a shell completion script for commands and options')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(shells) as (keyof typeof shells)[]))
    .action((shell) => {
      process.stdout.write(shells[shell](nodesOf(program)));
    });
}

/** A command or a group of commands. */
interface CompletionNode {
  /** Words of the command, each preceded by a space. Empty for the main program. */
  readonly path: string;
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly {
    readonly name: string;
    readonly description: string;
    readonly takesValue: boolean;
    readonly choices: readonly string[];
  }[];
  /** Allowed values of the first argument, or empty if any value is allowed. */
  readonly choices: readonly string[];
}

function nodesOf(command: CommandUnknownOpts, path = ''): readonly CompletionNode[] {
  const node: CompletionNode = {
    path,
    subcommands: command.commands.map((subcommand) => ({
      name: subcommand.name(),
      description: subcommand.description(),
    })),
    options: command.options.flatMap(({ long, description, required, optional, argChoices = [] }) =>
      long == null
        ? []
        : [{ name: long, description, takesValue: required || optional, choices: argChoices }],
    ),
    choices: command.registeredArguments[0]?.argChoices ?? [],
  };
  return [
    node,
    ...command.commands.flatMap((subcommand) => nodesOf(subcommand, `${path} ${subcommand.name()}`)),
  ];
}

/** Quotes a string for bash and zsh. */
const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function bash(nodes: readonly CompletionNode[]): string {
  const nouns = nodes.filter(({ path }) => path !== '').map(({ path }) => shellQuoted(path));
  const words = nodes.map(({ path, subcommands, options, choices }) => {
    const candidates = [
      ...subcommands.map(({ name }) => name),
      ...choices,
      ...options.map(({ name }) => name),
      '--help',
    ];
    return `    ${shellQuoted(path)}) words=${shellQuoted(candidates.join(' '))} ;;`;
  });
  const values = nodes.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(
        ({ name, choices }) =>
          `    ${shellQuoted(`${path} ${name}`)}) words=${shellQuoted(choices.join(' '))} ;;`,
      ),
  );
  return `# Completes crm in bash: source it, or put it at the end of ~/.bashrc.
_crm() {
  local i path='' words='' current="\${COMP_WORDS[COMP_CWORD]}"
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path \${COMP_WORDS[i]}" in
      ${nouns.join('|')}) path="$path \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path" in
${words.join('\n')}
  esac
  case "$path \${COMP_WORDS[COMP_CWORD-1]}" in
${values.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _crm crm
`;
}

/** Returns a zsh script that runs the bash script in zsh's emulation of bash completion. */
function zsh(nodes: readonly CompletionNode[]): string {
  return `#compdef crm
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
${bash(nodes).replace('in bash: source it, or put it at the end of ~/.bashrc', 'in zsh: put it at the end of ~/.zshrc')}`;
}

function fish(nodes: readonly CompletionNode[]): string {
  const fishQuoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = nodes.flatMap(({ path, subcommands, options, choices }) => {
    const prefix = `complete -c crm -n ${fishQuoted(`test (__crm_path) = ${fishQuoted(path)}`)}`;
    return [
      ...subcommands.map(({ name, description }) => `${prefix} -f -a ${name} -d ${fishQuoted(description)}`),
      ...(choices.length > 0 ? [`${prefix} -f -a ${fishQuoted(choices.join(' '))}`] : []),
      ...options.map(({ name, description, takesValue, choices: values }) => {
        const value = values.length > 0 ? ` -x -a ${fishQuoted(values.join(' '))}` : takesValue ? ' -r' : '';
        return `${prefix} -l ${name.slice(2)}${value} -d ${fishQuoted(description)}`;
      }),
    ];
  });
  return `# Completes crm in fish: put it into ~/.config/fish/completions/crm.fish.
function __crm_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    if contains -- "$path $word" ${nodes
      .filter(({ path }) => path !== '')
      .map(({ path }) => fishQuoted(path))
      .join(' ')}
      set path "$path $word"
    end
  end
  echo "$path"
end
${lines.join('\n')}
`;
}
