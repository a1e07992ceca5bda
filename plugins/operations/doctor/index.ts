// Doctor: general checks of `crm doctor`: machine, data folder, variables and database server.
// May import engine.

export { doctorModule } from './module.ts';
