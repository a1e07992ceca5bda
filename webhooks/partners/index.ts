// partners:
// May import

export { partnersModule } from './module.ts';
