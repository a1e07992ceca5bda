// Doctor: checks of `crm doctor` that belong to no other module: machine, data folder, variables and database server.
// May import engine.

export { doctorModule } from './module.ts';
