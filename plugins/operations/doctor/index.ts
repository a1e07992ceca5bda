// Doctor: general checks for `crm doctor`, of the machine, data folder, variables and database server.
// May import engine.

export { doctorModule } from './module.ts';
