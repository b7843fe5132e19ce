from regard.app.cli import main

main()
