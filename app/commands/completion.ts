import { Argument, type Command, type CommandUnknownOpts } from '@commander-js/extra-typings';

/** The shells that commands can be completed in, with what makes the script for each. */
const shells = { bash, zsh, fish } as const;

/** `completion`: a script of all that the command line has, so that completing starts no process. */
export function completionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(shells) as (keyof typeof shells)[]))
    .action((shell) => {
      process.stdout.write(shells[shell](nodesOf(program)));
    });
}

/** A command, or a noun that commands are below. */
interface Node {
  /** Its words, each after a space; empty for the whole. */
  readonly path: string;
  readonly below: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly {
    readonly name: string;
    readonly description: string;
    readonly takesValue: boolean;
    readonly choices: readonly string[];
  }[];
  /** What its first argument may be, where that is a choice. */
  readonly choices: readonly string[];
}

function nodesOf(command: CommandUnknownOpts, path = ''): readonly Node[] {
  const node: Node = {
    path,
    below: command.commands.map((each) => ({ name: each.name(), description: each.description() })),
    options: command.options.flatMap(({ long, description, required, optional, argChoices = [] }) =>
      long == null
        ? []
        : [{ name: long, description, takesValue: required || optional, choices: argChoices }],
    ),
    choices: command.registeredArguments[0]?.argChoices ?? [],
  };
  return [node, ...command.commands.flatMap((each) => nodesOf(each, `${path} ${each.name()}`))];
}

/** A text within single quotes of bash and zsh. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function bash(nodes: readonly Node[]): string {
  const nouns = nodes.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  const words = nodes.map(({ path, below, options, choices }) => {
    const all = [...below.map(({ name }) => name), ...choices, ...options.map(({ name }) => name), '--help'];
    return `    ${quoted(path)}) words=${quoted(all.join(' '))} ;;`;
  });
  const values = nodes.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ name, choices }) => `    ${quoted(`${path} ${name}`)}) words=${quoted(choices.join(' '))} ;;`),
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

/** Zsh runs the completions of bash. */
function zsh(nodes: readonly Node[]): string {
  return `#compdef crm
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
${bash(nodes).replace('in bash: source it, or put it at the end of ~/.bashrc', 'in zsh: put it at the end of ~/.zshrc')}`;
}

function fish(nodes: readonly Node[]): string {
  const escaped = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = nodes.flatMap(({ path, below, options, choices }) => {
    const here = `complete -c crm -n ${escaped(`test (__crm_path) = ${escaped(path)}`)}`;
    return [
      ...below.map(({ name, description }) => `${here} -f -a ${name} -d ${escaped(description)}`),
      ...(choices.length > 0 ? [`${here} -f -a ${escaped(choices.join(' '))}`] : []),
      ...options.map(({ name, description, takesValue, choices: values }) => {
        const value = values.length > 0 ? ` -x -a ${escaped(values.join(' '))}` : takesValue ? ' -r' : '';
        return `${here} -l ${name.slice(2)}${value} -d ${escaped(description)}`;
      }),
    ];
  });
  return `# Completes crm in fish: put it into ~/.config/fish/completions/crm.fish.
function __crm_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    if contains -- "$path $word" ${nodes
      .filter(({ path }) => path !== '')
      .map(({ path }) => escaped(path))
      .join(' ')}
      set path "$path $word"
    end
  end
  echo "$path"
end
${lines.join('\n')}
`;
}
