import { registerHooks } from 'node:module';

// A folder of migrations may lie anywhere (MIGRATIONS_DIR); what its files import is this package's.
const migrationsPackage = '@mikro-orm/migrations';
const migrationsUrl = import.meta.resolve(migrationsPackage);
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === migrationsPackage
      ? { url: migrationsUrl, format: 'module', shortCircuit: true }
      : next(specifier, context),
});
