// Doctor: what `crm doctor` looks at besides the checks of modules: machine, data folder, variables, database server.
// May import engine.

export { doctorModule } from './module.ts';
