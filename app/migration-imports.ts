import { registerHooks } from 'node:module';

// A folder of migrations may be anywhere (MIGRATIONS_DIR); its files import this package's modules.
const migrationsPackage = '@mikro-orm/migrations';
const migrationsUrl = import.meta.resolve(migrationsPackage);
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === migrationsPackage
      ? { url: migrationsUrl, format: 'module', shortCircuit: true }
      : next(specifier, context),
});
