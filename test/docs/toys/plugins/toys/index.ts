// Toys: an example of a module. May import engine, admin-ui/shell.

export { toysModule } from './module.ts';
